#!/usr/bin/env python3
"""profile and plan: the figures are measured once, kept, and what the plans are made with."""
import json
import os
import tempfile
import unittest
import unittest.mock

from support import mzcache, one_object

RATES = ["read_bytes_per_s", "decode_bytes_per_s", "allocate_bytes_per_s"]
FIGURES = ["--set", "profile.read_bytes_per_s=1e9", "--set", "profile.decode_bytes_per_s=4e9",
           "--set", "profile.allocate_bytes_per_s=1e10", "--set", "policy.cpu_price=0"]


class WithModel(unittest.TestCase):
    """A model of a real shape with random weights."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = os.path.join(cls.folder.name, "m.gguf")
        result = mzcache("synth", "--arch", "smollm2-135m", "--type", "q4_0", "-o", cls.model)
        assert result.returncode == 0, result.stderr

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def json_of(self, *words):
        result = mzcache(*words, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return one_object(result.stdout), result.stderr


class Profile(WithModel):
    def kept_in(self, file):
        return ["profile", "--set", "profile.file=" + file]

    def test_measured_once_and_kept(self):
        file = os.path.join(self.folder.name, "new", "p.json")
        first, said = self.json_of(*self.kept_in(file))
        self.assertIn("measuring storage and decoder once", said)
        for name in RATES:
            self.assertGreater(first[name], 1e6, name)
            self.assertEqual(first["busy"][name], 0)
        for name in ["swap_read_bytes_per_s", "write_bytes_per_s", "encode_bytes_per_s",
                     "decode_cpu_s_per_byte"]:
            self.assertGreater(first[name], 0, name)
        for name in ["r", "prefill_tokens_per_s", "model_read_bytes_per_s"]:
            self.assertIsNone(first[name], name)
        self.assertFalse(first["cached"])
        self.assertEqual(first["file"], file)
        self.assertEqual(os.listdir(os.path.dirname(file)), ["p.json"])

        second, said = self.json_of(*self.kept_in(file))
        self.assertEqual(said, "")
        self.assertTrue(second["cached"])
        self.assertEqual({k: second[k] for k in RATES}, {k: first[k] for k in RATES})
        text = mzcache(*self.kept_in(file)).stdout
        for word in ["read", "decode", "allocate", file]:
            self.assertIn(word, text)

        third, said = self.json_of(*self.kept_in(file), "--refresh")
        self.assertFalse(third["cached"])
        self.assertIn("measuring", said)

    def test_damaged_or_of_another_configuration_is_measured_again(self):
        file = os.path.join(self.folder.name, "damaged.json")
        with open(file, "w", encoding="utf-8") as stream:
            stream.write("{")
        report, said = self.json_of(*self.kept_in(file))
        self.assertFalse(report["cached"])
        self.assertIn(file, said)
        self.assertTrue(self.json_of(*self.kept_in(file))[0]["cached"])
        with open(file, encoding="utf-8") as stream:
            content = json.load(stream)
        content["profile"]["alone"]["swap_read_bytes_per_s"] *= 2
        with open(file, "w", encoding="utf-8") as stream:
            json.dump(content, stream)
        report, said = self.json_of(*self.kept_in(file))
        self.assertFalse(report["cached"])
        self.assertIn("checksum", said)
        report, said = self.json_of(*self.kept_in(file), "--set", "storage.depth=4")
        self.assertFalse(report["cached"])
        self.assertIn("something else", said)

    def test_with_a_model(self):
        file = os.path.join(self.folder.name, "model.json")
        words = [*self.kept_in(file), "-m", self.model]
        report, _ = self.json_of(*words)
        for name in ["r", "threshold_chunks", "prefill_tokens_per_s", "model_read_bytes_per_s",
                     "read_weights_ms", "read_chunk_ms", "decode_chunk_ms"]:
            self.assertGreater(report[name], 0, name)
        self.assertAlmostEqual(
            report["r"], report["read_weights_ms"] / report["decode_chunk_priced_ms"], places=6)
        again, said = self.json_of(*words)
        self.assertEqual(said, "")
        self.assertEqual(again["prefill_tokens_per_s"], report["prefill_tokens_per_s"])

    def test_where_it_cannot_be_kept_it_is_measured_all_the_same(self):
        report, said = self.json_of(*self.kept_in("/proc/no/such/p.json"))
        self.assertEqual(report["file"], "")
        self.assertGreater(report["read_bytes_per_s"], 0)
        self.assertIn("/proc/no/such/p.json", said)

    def test_its_own_place_is_the_cache(self):
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        home = os.path.join(self.folder.name, "cache")
        os.makedirs(os.path.join(home, "mzcache"))
        programs = os.path.join(cache, "mzcache", "programs")
        if os.path.isdir(programs):  # compiling them again would take long
            os.symlink(programs, os.path.join(home, "mzcache", "programs"))
        with unittest.mock.patch.dict(os.environ, {"XDG_CACHE_HOME": home}):
            report, _ = self.json_of("profile")
            self.assertTrue(report["file"].startswith(os.path.join(home, "mzcache", "profiles", "")))
            self.assertTrue(self.json_of("profile")[0]["cached"])
            other, _ = self.json_of("profile", "--set", "memory.codec=none")
            self.assertFalse(other["cached"])
            self.assertNotEqual(other["file"], report["file"])

    def test_no_swap_file(self):
        missing = ["--set", "memory.swap_directory=/no/such"]
        result = mzcache(*self.kept_in(os.path.join(self.folder.name, "n.json")), *missing)
        self.assertEqual(result.returncode, 1)
        self.assertIn("/no/such", result.stderr)


class Plan(WithModel):
    def plan(self, *words):
        return self.json_of("plan", "-m", self.model, *FIGURES, *words)[0]

    def test_shape_and_sums(self):
        plan = self.plan("--context", "2k", "--evict", "50%")
        self.assertGreaterEqual(
            set(plan), {"freed_bytes", "remaining_percent", "stages", "restore_ms", "steps"})
        self.assertEqual(set(plan["stages"]), {"kv_only", "kv_and_w", "w_only", "comp_kv"})
        self.assertEqual(plan["kv_bytes"], 30 * 8 * 196608)
        self.assertEqual(sum(plan["stages"].values()), len(plan["steps"]))
        self.assertEqual(sum(step["bytes"] for step in plan["steps"]), plan["freed_bytes"])
        self.assertGreaterEqual(plan["freed_bytes"], plan["requested_bytes"])
        self.assertAlmostEqual(plan["remaining_percent"],
                               100 - 100 * plan["freed_bytes"] / plan["footprint_bytes"])
        for step in plan["steps"]:
            self.assertIn(step["unit"], ["kv", "weights", "head"])
            self.assertIn(step["to"], ["memory", "storage", "dropped"])
        names = [(s["unit"], s["layer"], s["chunk"]) for s in plan["steps"] if s["from"] == "resident"]
        self.assertEqual(len(names), len(set(names)))

    def test_the_paths_owe_what_the_figures_say(self):
        plan = self.plan("--context", "2k", "--evict", "40%")
        decoded = sum(196608 for s in plan["steps"] if s["to"] == "memory")
        self.assertGreater(decoded, 0)
        self.assertAlmostEqual(plan["restore_ms"]["memory"], decoded / 4e9 * 1e3, places=3)
        units = {u["name"]: u["bytes"] for u in self.json_of("inspect", self.model)[0]["units"]}
        read = sum(196608 if s["unit"] == "kv" else
                   units["head" if s["unit"] == "head" else f"layer {s['layer']}"]
                   for s in plan["steps"] if s["to"] in ("storage", "dropped"))
        self.assertAlmostEqual(plan["restore_ms"]["storage"], read / 1e9 * 1e3, places=3)

    def test_what_is_computed_again_sooner_is_dropped(self):
        words = ["--context", "2k", "--evict", "20%", "--set", "policy.recompute=true"]
        for rate in ["0", "1000"]:  # not known, or too slow
            plan = self.plan(*words, "--set", "profile.prefill_tokens_per_s=" + rate)
            self.assertNotIn("recompute", [step["to"] for step in plan["steps"]])
        plan = self.plan(*words, "--set", "profile.prefill_tokens_per_s=1e6")
        self.assertEqual({step["to"] for step in plan["steps"]}, {"recompute"})
        self.assertEqual(plan["stages"]["recompute"], len(plan["steps"]))
        # Whole columns from the last on, each from the rearmost layer on.
        columns = len(plan["steps"]) // 30
        self.assertEqual([(s["chunk"], s["layer"]) for s in plan["steps"]],
                         [(7 - c, 29 - l) for c in range(columns) for l in range(30)])
        self.assertAlmostEqual(plan["restore_ms"]["recompute"], columns * 256 / 1e6 * 1e3, places=3)
        self.assertEqual(plan["restore_ms"]["storage"], 0)
        result = mzcache("plan", "-m", self.model, *FIGURES, *words, "--set",
                         "profile.prefill_tokens_per_s=1e6")
        self.assertIn("recompute", result.stdout)

    def test_nothing_everything_and_no_context(self):
        nothing = self.plan("--context", "1k", "--evict", "none")
        self.assertEqual((nothing["steps"], nothing["freed_bytes"]), ([], 0))
        self.assertEqual(nothing["remaining_percent"], 100)
        everything = self.plan("--context", "1k", "--evict", "100%")
        self.assertEqual(everything["freed_bytes"], everything["footprint_bytes"])
        self.assertEqual(everything["remaining_percent"], 0)
        weights = self.plan("--context", "0", "--evict", "100%")
        self.assertEqual(weights["kv_bytes"], 0)
        self.assertEqual(len(weights["steps"]), 31)
        self.assertEqual(weights["stages"]["w_only"], 31)

    def test_orders_and_paths(self):
        first = self.plan("--context", "2k", "--evict", "10%")["steps"][0]
        self.assertIn(first["layer"], [29, 30])
        forward = self.plan("--context", "2k", "--evict", "10%", "--set",
                            "policy.order=forward-out")["steps"][0]
        self.assertEqual(forward["layer"], 0)
        lossless = self.plan("--context", "2k", "--evict", "60%", "--set", "memory.codec=none")
        self.assertNotIn("memory", {s["to"] for s in lossless["steps"]})

    def test_the_table(self):
        result = mzcache("plan", "-m", self.model, *FIGURES, "--context", "2k", "--evict", "80%")
        self.assertEqual(result.returncode, 0, result.stderr)
        for word in ["KVandW", "weights", "dropped", "to restore", "storage"]:
            self.assertIn(word, result.stdout)

    def test_a_context_that_the_model_does_not_take(self):
        result = mzcache("plan", "-m", self.model, *FIGURES, "--context", "1000k", "--evict", "1%")
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertIn("--context", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
