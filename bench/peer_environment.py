"""A virtual environment with llama.cpp in it, for scripts that ask a peer's opinion."""

import os
import pathlib
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = str(ROOT / "build/peer-venv")
PACKAGES = ["llama-cpp-python==0.3.36", "gguf==0.19.0", "numpy"]


def enter(folder):
    """Runs the script again inside the virtual environment, made first where it is missing;
    llama-cpp-python is built for this processor, whichever script comes first: speeds are compared."""
    python = pathlib.Path(folder) / "bin/python"
    if pathlib.Path(sys.prefix).resolve() == pathlib.Path(folder).resolve():
        return
    if not python.exists():
        venv.create(folder, with_pip=True)
    ready = subprocess.run([str(python), "-c", "import llama_cpp, gguf, numpy"],
                           capture_output=True, check=False)
    if ready.returncode != 0:
        print(f"installing {' '.join(PACKAGES)} into {folder}", file=sys.stderr)
        environment = dict(os.environ, CMAKE_ARGS="-DGGML_NATIVE=ON")
        subprocess.run([str(python), "-m", "pip", "install", "-q", "--no-binary",
                        "llama-cpp-python", *PACKAGES], check=True, env=environment)
    os.execv(str(python), [str(python), *sys.argv])
