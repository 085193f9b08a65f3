#!/usr/bin/env python3
"""chat in a terminal: a pseudo-terminal plays the user."""
import os
import pty
import select
import signal
import sys
import time
import unittest

from support import BINARY, MODEL, need_model

PATIENCE_S = 120  # how long something may take to appear; nothing here measures time


class Terminal:
    """The command on a pseudo-terminal: type, and wait for text."""

    def __init__(self, *arguments):
        self.text = ""
        self.seen = 0
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "dumb"
            os.execv(BINARY, [BINARY, *arguments])

    def type(self, text):
        os.write(self.master, text.encode())

    def read(self, wait_s):
        ready, _, _ = select.select([self.master], [], [], wait_s)
        if not ready:
            return None
        try:
            data = os.read(self.master, 4096)
        except OSError:  # the other side is gone
            data = b""
        self.text += data.decode(errors="replace")
        return data

    def expect(self, wanted):
        """Waits for the text, from where the last one ended; returns what came before it."""
        end = time.monotonic() + PATIENCE_S
        while wanted not in self.text[self.seen:]:
            if time.monotonic() > end or self.read(1) == b"":
                raise AssertionError(f"{wanted!r} did not come; there was {self.text!r}")
        at = self.text.index(wanted, self.seen)
        before = self.text[self.seen:at]
        self.seen = at + len(wanted)
        return before

    def end(self):
        """Waits for the process; its exit status."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.master)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        raise AssertionError(f"it did not end; there was {self.text!r}")


CTRL_C = "\x03"
STORY = "Write a very long story about the sea, at least ten pages.\n"


class Chat(unittest.TestCase):
    def start(self, *flags):
        terminal = Terminal("chat", "-m", MODEL, *flags)
        terminal.expect("> ")
        return terminal

    def test_a_conversation(self):
        chat = self.start("-n", "16")
        chat.type("Name a colour.\n")
        chat.expect("Name a colour.")
        self.assertTrue(chat.expect("[").strip())  # there was an answer
        chat.expect("first token after")
        chat.expect("> ")
        chat.type("/evict 50%\n")
        chat.expect("[evicted")
        chat.expect("remains]")
        chat.type("/status\n")
        for part in ["resident", "compressed", "stored", "dropped", "floor"]:
            chat.expect(part)
        chat.type("Another one.\n")
        chat.expect("first token after")
        chat.type("/restore\n")
        chat.expect("[restored")
        chat.type("/evict much\n")
        chat.expect("not allowed")
        chat.type("/reset\n")
        chat.expect("[conversation forgotten]")
        chat.type("/quit\n")
        self.assertEqual(chat.end(), 0)

    def test_the_answer_streams(self):
        chat = self.start("-n", "200", "--logit-bias", "2=-1000")
        chat.type(STORY)
        chat.expect("ten pages.")
        reads = 0
        while "[" not in chat.text[chat.seen:]:
            self.assertIsNotNone(chat.read(PATIENCE_S))
            reads += 1
        self.assertGreater(reads, 5)
        chat.type("/quit\n")
        self.assertEqual(chat.end(), 0)

    def test_one_interrupt_stops_the_answer_and_the_talk_goes_on(self):
        chat = self.start("-n", "4000", "--logit-bias", "2=-1000")
        chat.type(STORY)
        chat.expect("ten pages.")
        while len(chat.text) < chat.seen + 40:
            self.assertNotEqual(chat.read(PATIENCE_S), b"")
        chat.type(CTRL_C)
        chat.expect("[cancelled")
        chat.expect("> ")
        chat.type("/status\n")
        chat.expect("resident")
        chat.type("/quit\n")
        self.assertEqual(chat.end(), 0)

    def test_an_eviction_in_the_middle_of_an_answer(self):
        chat = self.start("-n", "4000", "--logit-bias", "2=-1000")
        chat.type(STORY)
        chat.expect("ten pages.")
        while len(chat.text) < chat.seen + 40:
            self.assertNotEqual(chat.read(PATIENCE_S), b"")
        chat.type("/evict 50%\n")
        chat.expect("[evicted")
        chat.type("/quit\n")
        self.assertEqual(chat.end(), 0)
        self.assertTrue("[evicted;" in chat.text, chat.text)  # how the answer ended

    def test_two_interrupts_leave(self):
        chat = self.start()
        chat.type(CTRL_C)
        chat.expect("again leaves")
        chat.type(CTRL_C)
        self.assertEqual(chat.end(), 130)

    def test_the_end_of_the_input_leaves(self):
        chat = self.start()
        chat.type("\x04")
        self.assertEqual(chat.end(), 0)


if __name__ == "__main__":
    need_model()
    sys.stdout.flush()
    unittest.main(verbosity=2)
