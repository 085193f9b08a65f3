"""What the tests of the command share: the binary, the model, running and checking."""
import json
import os
import subprocess
import sys

BINARY = os.environ.get("MZCACHE_BINARY", "build/release/bin/mzcache")
MODEL = os.environ.get("MZCACHE_MODEL", "")
SKIPPED = 77


def need_model():
    """Ends the process as skipped where the real model is not there."""
    if not MODEL or not os.path.exists(MODEL):
        print(f"SKIPPED: no model at '{MODEL}' (tools/get-model.sh fetches it)")
        sys.exit(SKIPPED)


def mzcache(*arguments, stdin="", timeout=300):
    """Runs the command; the result has returncode, stdout, stderr."""
    return subprocess.run([BINARY, *arguments], input=stdin, capture_output=True, text=True,
                          timeout=timeout, errors="replace")


def one_object(text):
    """The one JSON object that is all of stdout."""
    value = json.loads(text)
    assert isinstance(value, dict), value
    return value
