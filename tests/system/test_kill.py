#!/usr/bin/env python3
"""A process killed while memory leaves or returns, a swap without room, files that change."""
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from kill_support import FIRST, SECOND, Talk, logits, rms, swap_file_of
from support import BINARY, MODEL, mzcache, need_model

STORE = ["--set", "policy.paths=storage"]
# Given, they need not be measured, which would make a file in the swap directory before any eviction.
RATES = [flag for key in ["read", "decode", "allocate"]
         for flag in ["--set", f"profile.{key}_bytes_per_s=2000000000"]]


class Killed(unittest.TestCase):
    """Nothing stays in the swap directory, whenever the process ends."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(dir="/var/tmp")
        self.addCleanup(shutil.rmtree, self.folder)

    def run_process(self, *flags):
        return subprocess.Popen(
            [BINARY, "run", "-m", MODEL, "-n", "2", "--raw", "-p", "A long tale. " * 200, "-p",
             "More.", "--evict", "100%", *STORE, *RATES, "--set",
             f"memory.swap_directory={self.folder}", *flags],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def kill(self, process):
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stderr.close()
        self.assertEqual(process.returncode, -signal.SIGKILL, "it ended before it was killed")
        self.assertEqual(os.listdir(self.folder), [])

    def test_during_an_eviction(self):
        for delay_s in [0, 0.005, 0.02]:
            with self.subTest(delay_s):
                # The turn after the eviction is long, so that a late kill still finds it.
                process = self.run_process("--set", "storage.limit=30MiB/s")
                while not swap_file_of(process.pid, self.folder):
                    self.assertIsNone(process.poll(), "no swap file was ever made")
                time.sleep(delay_s)
                self.kill(process)

    def test_during_a_restore(self):
        for delay_s in [0, 0.3, 1]:
            with self.subTest(delay_s):
                process = self.run_process("--set", "storage.limit=30MiB/s")
                for line in process.stderr:
                    if line.startswith("[evicted"):
                        break
                time.sleep(delay_s)
                self.assertTrue(swap_file_of(process.pid, self.folder))
                self.kill(process)


class NoRoom(unittest.TestCase):
    """What does not fit into the swap file stays in memory, and nothing is lost."""

    def test_a_small_swap_file(self):
        with tempfile.TemporaryDirectory() as folder:
            reference, _ = logits(folder, "--at", "400", "--codec", "none")
            for room in ["0", "1MiB"]:
                for codec, most in [("none", 0), ("q8", 0.1)]:
                    with self.subTest(room=room, codec=codec):
                        row, report = logits(folder, "--evict", "100%", "--at", "400", "--codec",
                                             codec, *STORE, "--set", f"memory.swap_file_max={room}")
                        self.assertLessEqual(rms(row, reference), most)
                        evicted = report["evictions"][0]
                        limit = 0 if room == "0" else 1 << 20
                        self.assertLessEqual(evicted["bytes_written"], limit)
                        self.assertGreater(evicted["freed_bytes"], 0)
                        self.assertGreater(evicted["remaining_percent"], 0)

    def test_a_directory_that_cannot_be_used_is_an_error_at_once(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "file")
            with open(file, "w", encoding="utf-8"):
                pass
            bad = [os.path.join(folder, "missing"), file]
            if os.getuid() != 0:
                bad.append("/")
            for path in bad:
                with self.subTest(path):
                    result = mzcache("run", "-m", MODEL, "-p", FIRST, "--set",
                                     f"memory.swap_directory={path}")
                    self.assertEqual(result.returncode, 1, result.stderr)
                    self.assertEqual(result.stdout, "")
                    self.assertIn("memory.swap_directory", result.stderr)
                    self.assertIn(path, result.stderr)
                    self.assertEqual(result.stderr.count("\n"), 1, result.stderr)


class Changed(unittest.TestCase):
    """The model's file under a running process."""

    def setUp(self):
        folder = tempfile.mkdtemp(dir="/var/tmp")
        self.addCleanup(shutil.rmtree, folder)
        self.model = os.path.join(folder, "model.gguf")
        shutil.copyfile(MODEL, self.model)

    def test_replaced_it_goes_on_with_the_old_one(self):
        with Talk(self.model, "--codec", "none") as talk:
            talk.answer(FIRST)
            talk.evict("100%")
            expected = talk.answer(SECOND)
            self.assertNotIn("failed:", expected)
        with Talk(self.model, "--codec", "none") as talk:
            talk.answer(FIRST)
            talk.evict("100%")
            with open(self.model + ".new", "wb") as other:
                other.write(b"something else")
            os.replace(self.model + ".new", self.model)
            self.assertEqual(talk.answer(SECOND), expected)
            self.assertEqual(talk.quit(), 0)

    def test_truncated_it_says_so_and_lives(self):
        with Talk(self.model) as talk:
            talk.answer(FIRST)
            talk.evict("100%")
            os.truncate(self.model, 1 << 20)
            failure = talk.answer(SECOND)
            self.assertIn("failed:", failure)
            self.assertIn(self.model, failure)
            self.assertTrue(re.search("end|error", failure), failure)
            talk.say("/status")
            talk.until("swap file")
            self.assertEqual(talk.quit(), 0)


if __name__ == "__main__":
    need_model()
    unittest.main(verbosity=2)
