#!/usr/bin/env python3
"""Real faults of real file systems: a full disk, and one that cannot be read any more. Needs root;
mounts in a namespace of its own, so that nothing of it stays."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from kill_support import FIRST, SECOND, Talk, logits, rms
from support import MODEL, SKIPPED, need_model

STORE = ["--set", "policy.paths=storage"]
IN_NAMESPACE = "MZCACHE_TEST_MOUNTS"


def command(*arguments):
    result = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise AssertionError(f"{' '.join(arguments)}: {result.stderr}")


class Mounted(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(dir="/var/tmp")
        self.mount = os.path.join(self.folder, "mount")
        os.mkdir(self.mount)
        self.addCleanup(shutil.rmtree, self.folder)
        self.addCleanup(lambda: subprocess.run(["umount", "-l", self.mount], check=False))

    def mount_image(self, mib):
        """A file system in a file, whose disk fails once the file is short."""
        image = os.path.join(self.folder, "image")
        with open(image, "wb") as file:
            file.truncate(mib << 20)
        command("mkfs.ext4", "-q", "-F", "-m", "0", image)
        command("mount", "-o", "loop", image, self.mount)
        return image

    @staticmethod
    def break_disk(image):
        os.sync()
        os.truncate(image, 1 << 20)


class FullDisk(Mounted):
    def check(self):
        swap = ["--set", f"memory.swap_directory={self.mount}"]
        reference, _ = logits(self.folder, "--at", "400", "--codec", "none")
        for codec, most in [("none", 0), ("q8", 0.1)]:
            with self.subTest(codec):
                row, report = logits(self.folder, "--evict", "100%", "--at", "400", "--codec",
                                     codec, *STORE, *swap)
                self.assertLessEqual(rms(row, reference), most)
                evicted = report["evictions"][0]
                self.assertGreater(evicted["freed_bytes"], 0)
                self.assertGreater(evicted["remaining_percent"], 0)
        self.assertEqual([n for n in os.listdir(self.mount) if "swap" in n], [])

    def test_in_memory(self):
        command("mount", "-t", "tmpfs", "-o", "size=2m", "none", self.mount)
        self.check()

    def test_on_a_disk(self):
        self.mount_image(8)
        self.check()


class UnreadableDisk(Mounted):
    def test_the_swap_file(self):
        image = self.mount_image(64)
        flags = ["--codec", "none", "--set", f"memory.swap_directory={self.mount}"]
        with Talk(MODEL, *flags) as talk:
            talk.answer(FIRST)
            expected = talk.answer(SECOND)
        with Talk(MODEL, *flags) as talk:
            talk.answer(FIRST)
            self.assertIn("[evicted", talk.evict("100%"))
            self.break_disk(image)
            # Computed again from its tokens.
            self.assertEqual(talk.answer(SECOND), expected)
            self.assertEqual(talk.quit(), 0)

    def test_the_model(self):
        image = self.mount_image((os.path.getsize(MODEL) >> 20) + 64)
        model = os.path.join(self.mount, "model.gguf")
        shutil.copyfile(MODEL, model)
        with Talk(model) as talk:
            talk.answer(FIRST)
            talk.evict("100%")
            self.break_disk(image)
            failure = talk.answer(SECOND)
            self.assertIn("failed:", failure)
            self.assertIn(model, failure)
            self.assertIn("Input/output error", failure)
            self.assertEqual(talk.quit(), 0)


def need_mounts():
    """Goes on in a mount namespace of its own; skipped where that, or a loop device, is refused."""
    if IN_NAMESPACE in os.environ:
        return
    if os.getuid() != 0 or not os.path.exists("/dev/loop-control"):
        print("SKIPPED: needs root and loop devices")
        sys.exit(SKIPPED)
    os.environ[IN_NAMESPACE] = "1"
    os.execvp("unshare", ["unshare", "-m", "--propagation", "private", sys.executable, "-B",
                          *sys.argv])


if __name__ == "__main__":
    need_model()
    need_mounts()
    unittest.main(verbosity=2)
