"""What the tests of mishaps share: a talk through pipes, rows of logits, files that were left."""
import math
import os
import struct
import subprocess
import threading

from support import BINARY, MODEL, mzcache, one_object

IDS = ",".join(str(100 + (7 * i) % 4000) for i in range(600))
FIRST = "Name three colours."
SECOND = "Name three more."
PATIENCE_S = 120  # how long something may take to appear; nothing here measures time


class Talk:
    """`mzcache chat` with pipes: say a line, wait for a text."""

    def __init__(self, model=MODEL, *flags):
        self.process = subprocess.Popen(
            [BINARY, "chat", "-m", model, "-n", "12", "--temp", "0", *flags],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            errors="replace")
        self.text = ""
        self.watchdog = threading.Timer(PATIENCE_S, self.process.kill)
        self.watchdog.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.watchdog.cancel()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in [self.process.stdin, self.process.stdout, self.process.stderr]:
            stream.close()

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def until(self, *wanted):
        """Reads lines until one holds any of the texts; returns them all."""
        text = ""
        while not any(part in text for part in wanted):
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError(f"{wanted} did not come; there was {self.text + text!r}, "
                                     f"{self.process.stderr.read()!r}")
            text += line
        self.text += text
        return text

    def answer(self, line):
        """The answer's text, or the line that says why there is none."""
        self.say(line)
        text = self.until("first token after", "failed:")
        return text if "failed:" in text else text[:text.rindex("[")]

    def evict(self, amount):
        self.say(f"/evict {amount}")
        return self.until("[evicted", "failed:")

    def quit(self):
        self.say("/quit")
        return self.process.wait(timeout=PATIENCE_S)


def logits(folder, *flags):
    """The last position's logits, and the report."""
    file = os.path.join(folder, "rows.f32")
    result = mzcache("logits", "-m", MODEL, "--tokens", IDS, "-o", file, "--json", *flags)
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    with open(file, "rb") as stream:
        data = stream.read()
    os.remove(file)
    return struct.unpack(f"<{len(data) // 4}f", data), one_object(result.stdout)


def rms(a, b):
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b)) / len(a))


def swap_file_of(pid, folder):
    """Whether the process has a file of this directory open (it has no name any more)."""
    try:
        for entry in os.scandir(f"/proc/{pid}/fd"):
            if os.readlink(entry.path).startswith(folder + "/"):
                return True
    except OSError:  # closed, or gone, meanwhile
        pass
    return False
