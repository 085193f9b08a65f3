#!/usr/bin/env python3
"""bench ttft, attention, storage and memory: their columns, on a tiny model. No times."""
import os
import tempfile
import unittest

from support import mzcache, one_object

GOLDEN = os.environ.get("MZCACHE_GOLDEN", "")
MODEL = os.path.join(GOLDEN, "models", "llama-gqa.gguf")
COLUMNS = """context_tokens remaining_percent policy ttft_ms ttft_min_ms ttft_max_ms allocate_ms read_ms
    decode_ms compute_ms wait_ms bytes_read bytes_decoded saved_percent in_memory_ms in_memory_best_ms
    partial_offload_ms bound_ms contended_bound_ms efficiency system_cpu_ms speed_up""".split()
POLICIES = """mzcache partial-offload no-overlap allocation-reload reload-prefill forward-out
    random-out memory-only storage-only""".split()


@unittest.skipUnless(os.path.exists(MODEL), "MZCACHE_GOLDEN names no golden models")
class Bench(unittest.TestCase):
    def json_of(self, *words):
        result = mzcache("bench", *words, "-m", MODEL, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return one_object(result.stdout)

    def test_a_codec_for_each_tier(self):
        found = self.json_of("ttft", "--context", "700", "--remaining", "0", "--repeat", "1",
                             "--policy", "mzcache,storage-only", "--set", "memory.codec=packed",
                             "--set", "memory.storage_codec=entropy")
        self.assertEqual(found["machine"]["codec"], "packed")
        self.assertEqual(found["machine"]["storage_codec"], "entropy")
        for row in found["rows"]:
            self.assertGreater(row["bytes_decoded"], 0)
            self.assertGreater(row["saved_percent"], 0)
            self.assertGreater(row["bound_ms"], 0)

    def test_a_row_for_each_level_and_policy(self):
        found = self.json_of("ttft", "--context", "300", "--remaining", "100,50,0", "--repeat", "1",
                             "--policy", ",".join(POLICIES))
        self.assertEqual([(r["asked_percent"], r["policy"]) for r in found["rows"]],
                         [(level, policy) for level in (100, 50, 0) for policy in POLICIES])
        for row in found["rows"]:
            if not row["reachable"]:
                self.assertGreaterEqual(row["remaining_percent"], row["asked_percent"] + 3)
                continue
            for name in COLUMNS:
                self.assertIn(name, row)
            self.assertLess(row["remaining_percent"], row["asked_percent"] + 3)
            self.assertLessEqual(row["ttft_min_ms"], row["ttft_ms"])
            self.assertLessEqual(row["ttft_ms"], row["ttft_max_ms"])
            self.assertAlmostEqual(row["efficiency"], row["bound_ms"] / row["ttft_ms"])
            self.assertGreaterEqual(row["bound_ms"], row["in_memory_ms"])
            if row["asked_percent"] == 100:
                self.assertEqual(row["bytes_read"] + row["bytes_decoded"], 0)
            elif row["policy"] == "partial-offload":
                self.assertEqual(row["bytes_decoded"], 0)
                self.assertGreater(row["bytes_read"], 0)
        self.assertEqual(found["machine"]["state"], "warm")

    def test_a_computed_context(self):
        found = self.json_of("ttft", "--context", "300", "--remaining", "0", "--repeat", "1",
                             "--fill", "prefill", "--policy", "mzcache")
        self.assertEqual(len(found["rows"]), 1)
        self.assertGreater(found["rows"][0]["partial_offload_ms"], 0)

    def test_attention_over_encoded_chunks_reads_fewer_bytes(self):
        words = ["attention", "-p", "1,8", "--depth", "300,600", "--repeat", "1"]
        plain = self.json_of(*words)
        if plain["machine"]["kernels"] != "cpu":
            result = mzcache("bench", *words, "--encoded", "-m", MODEL)
            self.assertEqual(result.returncode, 1)
            self.assertIn("--encoded", result.stderr)
            return
        shape = [(300, 1), (300, 8), (600, 1), (600, 8)]
        encoded = self.json_of(*words, "--encoded")
        for found in (plain, encoded):
            self.assertEqual([(r["depth"], r["tokens"]) for r in found["rows"]], shape)
        for before, after in zip(plain["rows"], encoded["rows"]):
            bytes_before, bytes_after = (r["ms"] * r["read_bytes_per_s"] for r in (before, after))
            self.assertLess(bytes_after, bytes_before)

    def test_compressed_attention_brings_fewer_chunks_back(self):
        # Of real size, so that the in-memory swap, which grows by segments, is worth something.
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "model.gguf")
            made = mzcache("synth", "--arch", "smollm2-135m", "--type", "q4_0", "-o", model)
            self.assertEqual(made.returncode, 0, made.stderr)
            decoded = {}
            for mode in ("false", "true"):
                result = mzcache("bench", "ttft", "-m", model, "--json", "--context", "1500",
                                 "--remaining", "80", "--repeat", "1", "--policy", "memory-only",
                                 "--set", "memory.compressed_attention=" + mode)
                if result.returncode != 0:
                    self.assertEqual(mode, "true")
                    self.assertIn("needs the cpu kernels", result.stderr)
                    return
                decoded[mode] = one_object(result.stdout)["rows"][0]["bytes_decoded"]
        self.assertLess(decoded["true"], decoded["false"])

    def test_storage_and_memory(self):
        for name in ("storage", "memory"):
            row = self.json_of(name, "--repeat", "1",
                               *(["--context", "300"] if name == "memory" else []))["rows"][0]
            self.assertAlmostEqual(row["ratio"], row["bytes_per_s"] / row["reference_bytes_per_s"])

    def test_bad_flags(self):
        for flag, value in (("--policy", "best"), ("--remaining", "101"), ("--state", "hot"),
                            ("--fill", "zeros"), ("--context", "4")):
            result = mzcache("bench", "ttft", "-m", MODEL, flag, value)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(flag, result.stderr)


if __name__ == "__main__":
    unittest.main()
