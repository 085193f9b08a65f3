#!/usr/bin/env python3
"""eval, bench codec and codec profiles: what they promise, with a real model and a short context."""
import os
import tempfile
import unittest
import unittest.mock

from support import MODEL, mzcache, need_model, one_object

SHORT = ["--context", "512", "--score", "32"]


def some_text(lines):
    return "".join(f"{i}. On day {i * 3} the wind came from the south at {i * 7 % 41} knots, the crew "
                   f"mended {i * 5 % 23} sails, and the cook counted {i * 13 % 97} loaves.\n"
                   for i in range(1, lines))


class Eval(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.environment = unittest.mock.patch.dict(os.environ, XDG_CACHE_HOME=cls.folder.name)
        cls.environment.start()
        cls.text = os.path.join(cls.folder.name, "text.txt")
        with open(cls.text, "w", encoding="utf-8") as file:
            file.write(some_text(400))

    @classmethod
    def tearDownClass(cls):
        cls.environment.stop()
        cls.folder.cleanup()

    def rows(self, *words):
        result = mzcache(*words, "-m", MODEL, "-f", self.text, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return {row["codec"]: row for row in one_object(result.stdout)["rows"]}

    def test_divergence_follows_the_bits(self):
        rows = self.rows("eval", "kl", "--codec", "none,zstd,q8,q4,entropy", *SHORT)
        for lossless in ("none", "zstd"):
            self.assertEqual(rows[lossless]["kl"], 0)
            self.assertEqual(rows[lossless]["top1_percent"], 100)
            self.assertEqual(rows[lossless]["perplexity_ratio"], 1)
        self.assertEqual(rows["none"]["saved_percent"], 0)
        self.assertAlmostEqual(rows["q8"]["saved_percent"], 46.86, delta=0.05)
        self.assertLess(rows["q8"]["kl"], 0.001)
        self.assertGreater(rows["q8"]["kl"], 0)
        self.assertGreater(rows["q4"]["kl"], 10 * rows["q8"]["kl"])
        self.assertGreater(rows["entropy"]["saved_percent"], 75)
        self.assertLess(rows["entropy"]["kl"], rows["q4"]["kl"])
        for row in rows.values():
            self.assertLessEqual(row["kl"], row["kl_p99"] + 1e-12)

    def test_more_cycles_change_nothing(self):
        rows = self.rows("eval", "swap", "--codec", "q8,entropy,packed", "--cycles", "3",
                         "--context", "300", "--score", "8")
        for row in rows.values():
            self.assertEqual(row["changed"], 0)

    def test_lookup(self):
        rows = self.rows("eval", "lookup", "--codec", "q8", "--codes", "4", "--context", "512")
        self.assertEqual(list(rows), ["untouched", "q8"])
        for row in rows.values():
            self.assertGreaterEqual(row["digits_percent"], row["whole_percent"])
            self.assertLessEqual(row["digits_percent"], 100)
        self.assertGreater(rows["untouched"]["digits_percent"], 0)
        self.assertAlmostEqual(rows["q8"]["saved_percent"], 46.9, delta=0.5)

    def test_what_lossless_codecs_save(self):
        rows = self.rows("eval", "lossless", "--context", "600")
        self.assertEqual(list(rows), ["zstd", "lz4", "split-zstd"])
        for row in rows.values():
            # K and V have as many bytes; a chunk's header and sizes belong to neither.
            halves = (row["saved_k_percent"] + row["saved_v_percent"]) / 2
            self.assertLess(row["saved_percent"], halves)
            self.assertGreater(row["saved_percent"], halves - 0.1)
        self.assertGreater(rows["zstd"]["saved_percent"], rows["lz4"]["saved_percent"] + 2)
        for half in ("saved_k_percent", "saved_v_percent"):
            self.assertGreater(rows["split-zstd"][half], rows["zstd"][half] + 2)
            self.assertLess(rows["split-zstd"][half], 30)
        # The two full chunks of a layer are those that an eviction encodes.
        evicted = self.rows("eval", "kl", "--codec", "zstd,split-zstd", *SHORT)
        for codec, row in evicted.items():
            self.assertAlmostEqual(row["saved_percent"], rows[codec]["saved_percent"], delta=0.1)
        for flags, problem in ((["--codec", "q8"], "zstd, lz4, split-zstd"),
                               (["--context", "100"], "full chunk")):
            refused = mzcache("eval", "lossless", "-m", MODEL, "-f", self.text, *flags)
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertIn(problem, refused.stderr)

    def test_perplexity(self):
        result = mzcache("eval", "perplexity", "-m", MODEL, "-f", self.text, "--context", "256",
                         "--windows", "2", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        found = one_object(result.stdout)
        self.assertEqual(found["windows"], 2)
        self.assertEqual(found["scored_tokens"], 254)
        self.assertGreater(found["perplexity"], 1)
        self.assertLess(found["perplexity"], 100)

    def test_short_texts_are_refused(self):
        with open(os.path.join(self.folder.name, "short.txt"), "w", encoding="utf-8") as file:
            file.write("Too short.")
        for words in (["eval", "kl"], ["profile", "--codec", "entropy"]):
            result = mzcache(*words, "-m", MODEL, "-f", file.name)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("are needed", result.stderr)
        result = mzcache("profile", "--codec", "q8", "-m", MODEL, "-f", file.name)
        self.assertEqual(result.returncode, 1)
        self.assertIn("uses none", result.stderr)

    def test_a_profile_is_made_once_and_used(self):
        before = self.rows("eval", "kl", "--codec", "packed", *SHORT)
        self.assertAlmostEqual(before["packed"]["saved_percent"], 46.8, delta=0.2)  # as q8
        made = mzcache("profile", "--codec", "packed", "-m", MODEL, "-f", self.text, "--json")
        self.assertEqual(made.returncode, 0, made.stderr)
        profile = one_object(made.stdout)
        self.assertEqual(profile["tokens"], 4096)
        self.assertTrue(os.path.exists(profile["file"]))
        after = self.rows("eval", "kl", "--codec", "packed", *SHORT)
        self.assertGreater(after["packed"]["saved_percent"], 76)
        # Damaged, it is made anew, and chunks are encoded without one until then.
        with open(profile["file"], "r+b") as file:
            file.seek(100)
            file.write(b"damage")
        again = self.rows("eval", "kl", "--codec", "packed", *SHORT)
        self.assertAlmostEqual(again["packed"]["saved_percent"], 46.8, delta=0.2)
        os.remove(profile["file"])


class Bench(unittest.TestCase):
    def test_codecs(self):
        result = mzcache("bench", "codec", "--codec", "q8,entropy", "--repeat", "1", "--kv-heads",
                         "2", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        for row in one_object(result.stdout)["rows"]:
            for key in ("encode_bytes_per_s", "decode_bytes_per_s", "memcpy_bytes_per_s"):
                self.assertGreater(row[key], 0)


if __name__ == "__main__":
    need_model()
    unittest.main()
