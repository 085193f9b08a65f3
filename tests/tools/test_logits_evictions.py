#!/usr/bin/env python3
"""logits --evict A --at K: without a lossy codec no bit changes, whatever path the units take. The
reference is the same command without --evict, split at the same tokens."""
import itertools
import json
import os
import tempfile
import unittest

from support import mzcache, one_object

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODELS = os.path.join(ROOT, "tests", "golden", "models")
MODEL = os.path.join(MODELS, "llama-gqa.gguf")

# One --set of each variant of the machinery.
VARIANTS = {
    "default": [],
    "threads": ["--set", "storage.engine=threads"],
    "small pages": ["--set", "memory.huge_pages=false"],
    "buffered": ["--set", "storage.direct=false"],
    "memory": ["--set", "policy.paths=memory"],
    "storage": ["--set", "policy.paths=storage"],
    "forward-out": ["--order", "forward-out"],
    "random-out": ["--order", "random-out"],
}


def prompt():
    with open(os.path.join(MODELS, "prompt.json"), encoding="utf-8") as file:
        return json.load(file)["tokens"]


class Evictions(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.numbers = itertools.count()

    def tearDown(self):
        self.folder.cleanup()

    def logits(self, tokens, *flags):
        """The bytes written, and the report."""
        out = os.path.join(self.folder.name, f"{next(self.numbers)}.f32")
        ids = os.path.join(self.folder.name, "ids.json")
        with open(ids, "w", encoding="utf-8") as file:
            json.dump({"tokens": tokens}, file)
        result = mzcache("logits", "-m", MODEL, "--tokens", "@" + ids, "-o", out, "--json",
                         "--positions", "0,-1", "--codec", "none", *flags)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(out, "rb") as file:
            return file.read(), one_object(result.stdout)

    def test_every_amount_at_every_length(self):
        tokens = prompt() * 3
        for at in [1, 255, 256, 257, 700, 1500]:
            split = tokens[:at + 20]
            reference, _ = self.logits(split, "--at", str(at))
            for amount in ["1%", "50%", "100%"]:
                with self.subTest(at=at, amount=amount):
                    evicted, report = self.logits(split, "--evict", amount, "--at", str(at))
                    self.assertEqual(evicted, reference)
                    self.assertEqual(len(report["evictions"]), 1)
                    self.assertGreater(report["evictions"][0]["freed_bytes"], 0)

    def test_repeated_pairs_on_every_path(self):
        tokens = prompt()
        reference, _ = self.logits(tokens, "--at", "100", "--at", "257", "--at", "512")
        pairs = ["--evict", "10%", "--evict", "90%", "--at", "100", "--evict", "100%", "--at",
                 "257", "--evict", "50%", "--evict", "50%", "--evict", "100%", "--at", "512"]
        for name, flags in VARIANTS.items():
            with self.subTest(name):
                evicted, report = self.logits(tokens, *pairs, *flags)
                self.assertEqual(evicted, reference)
                self.assertEqual(len(report["evictions"]), 6)
                self.assertEqual(len(report["restores"]), 4)

    def test_the_batch_is_the_slice(self):
        tokens = prompt()[:300]
        for batch in ["1", "7", "256"]:
            with self.subTest(batch):
                flags = ["--batch", batch, "--at", "130"]
                reference, _ = self.logits(tokens, *flags)
                evicted, _ = self.logits(tokens, "--evict", "100%", *flags)
                self.assertEqual(evicted, reference)


if __name__ == "__main__":
    unittest.main(verbosity=2)
