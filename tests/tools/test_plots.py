#!/usr/bin/env python3
"""tools/plots.py draws every figure of made-up rows, and leaves out what there are no rows for."""
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest

TOOL = os.path.join(os.path.dirname(__file__), "..", "..", "tools", "plots.py")
POLICIES = ["mzcache", "partial-offload", "no-overlap", "allocation-reload", "reload-prefill",
            "forward-out", "random-out"]


def row(context, level, policy):
    return {"context_tokens": context, "asked_percent": level, "policy": policy, "reachable": True,
            "ttft_ms": 500.0 - level, "restore_ms": 400.0 - level, "allocate_ms": 20.0,
            "read_ms": 300.0, "decode_ms": 100.0, "bytes_read": 1, "bytes_decoded": 1,
            "bound_ms": 300.0}


@unittest.skipUnless(importlib.util.find_spec("matplotlib"), "matplotlib is not there")
class Plots(unittest.TestCase):
    def draw(self, rows):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "rows.json")
            with open(file, "w", encoding="utf-8") as stream:
                json.dump({"rows": rows, "machine": {}}, stream)
            result = subprocess.run([sys.executable, TOOL, file, "-o", folder, "--name", "m-"],
                                    capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, 0, result.stderr)
            pictures = sorted(name for name in os.listdir(folder) if name.endswith(".svg"))
            for name in pictures:
                with open(os.path.join(folder, name), encoding="utf-8") as stream:
                    self.assertIn("<svg", stream.read())
            return pictures, result.stderr

    def test_every_figure(self):
        rows = [row(context, level, policy) for context in (2048, 8192)
                for level in (75, 50, 25, 0) for policy in POLICIES]
        rows.append({"context_tokens": 2048, "asked_percent": 0, "policy": "memory-only",
                     "reachable": False})
        pictures, said = self.draw(rows)
        self.assertEqual(pictures, [f"m-figure-{n:02}.svg" for n in (4, 9, 10, 11, 12)])
        self.assertEqual(said, "")

    def test_missing_rows(self):
        pictures, said = self.draw([row(2048, 0, "partial-offload")])
        self.assertEqual(pictures, ["m-figure-04.svg"])
        self.assertIn("no rows for figure 9", said)


if __name__ == "__main__":
    unittest.main()
