#!/usr/bin/env python3
"""The command line without a model: flags, exit statuses, one line for every error."""
import json
import os
import re
import struct
import tempfile
import unittest

from support import mzcache, one_object

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))

COMMANDS = ["run", "chat", "inspect", "tokenize", "logits", "devices", "trace", "synth", "bench",
            "profile", "plan", "eval", "simulate"]


class Help(unittest.TestCase):
    def test_every_help_has_an_example(self):
        for words in [[], *[[c] for c in COMMANDS], ["trace", "summary"], ["trace", "svg"],
                      ["bench", "mailbox"], ["bench", "ttft"]]:
            with self.subTest(words):
                result = mzcache(*words, "--help")
                self.assertEqual(result.returncode, 0)
                self.assertIn("Example:\n  mzcache", result.stdout)
                self.assertEqual(result.stderr, "")

    def test_the_version_is_the_project_s(self):
        with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
            version = re.search(r"project\(mzcache VERSION ([0-9.]+)", file.read()).group(1)
        result = mzcache("--version")
        self.assertEqual((result.returncode, result.stdout), (0, f"mzcache {version}\n"))


class Usage(unittest.TestCase):
    def refused(self, status, words, *parts):
        result = mzcache(*words)
        with self.subTest(words):
            self.assertEqual(result.returncode, status, result.stderr)
            self.assertEqual(result.stdout, "")
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
            for part in parts:
                self.assertIn(part, result.stderr)

    def test_bad_flags_name_the_flag_and_what_is_allowed(self):
        m = ["run", "-m", "m.gguf", "-p", "x"]
        for words, parts in [
                ([], ["run", "chat"]),
                (["nosuch"], ["nosuch", "run", "chat"]),
                (["run", "--bogus"], ["--bogus", "--prompt", "--evict"]),
                (["run"], ["-m"]),
                (["run", "-m", "m.gguf"], ["-p"]),
                (["run", "-m"], ["--model"]),
                ([*m, "-n", "many"], ["-n", "many", "8k"]),
                ([*m, "-n", "0"], ["-n", "0"]),
                ([*m, "-c", "-5"], ["-c", "-5"]),
                ([*m, "--temp", "hot"], ["--temp", "hot", "0 to 100"]),
                ([*m, "--temp", "-1"], ["--temp", "-1"]),
                ([*m, "--temp", "nan"], ["--temp", "nan"]),
                ([*m, "--top-k", "1.5"], ["--top-k", "1.5"]),
                ([*m, "--top-p", "2"], ["--top-p", "0 to 1"]),
                ([*m, "--seed", "-1"], ["--seed", "-1"]),
                ([*m, "--logit-bias", "7"], ["--logit-bias", "ID=BIAS"]),
                ([*m, "--stop", ""], ["--stop"]),
                ([*m, "--evict", "half"], ["--evict", "half", "50%", "none"]),
                ([*m, "--evict", "101%"], ["--evict", "101%", "100%"]),
                ([*m, "--codec", "q9"], ["--codec", "q9", "q8", "none"]),
                ([*m, "--order", "sideways"], ["--order", "sideways", "backward-out"]),
                ([*m, "--tokens", "1,x"], ["--tokens", "x"]),
                ([*m, "--tokens", ""], ["--tokens"]),
                ([*m, "--set", "storage.depth=0"], ["--set", "storage.depth", "1 to 1024"]),
                ([*m, "--set", "storage.dept=1"], ["--set", "storage.dept", "storage.depth"]),
                ([*m, "--set", "nothing"], ["--set", "key=value"]),
                (["inspect"], ["FILE"]),
                (["tokenize", "-p", "x"], ["-m"]),
                (["tokenize", "-m", "m", "-p", "x", "-f", "y"], ["--file"]),
                (["logits", "-m", "m.gguf", "--tokens", "1,2"], ["-o"]),
                (["logits", "-m", "m", "-o", "o", "--tokens", "1,2", "--positions", "2"],
                 ["--positions", "-2 to 1"]),
                (["logits", "-m", "m", "-o", "o", "--tokens", "1,2", "--at", "2"], ["--at", "2"]),
                (["logits", "-m", "m", "-o", "o", "--tokens", "1,2,3", "--at", "2", "--at", "1"],
                 ["--at", "1"]),
                (["logits", "-m", "m", "-o", "o", "--tokens", "1,2", "--evict", "1%"], ["--at"]),
                (["logits", "-m", "m", "-o", "o", "--tokens", "1,2", "--batch", "0"], ["--batch"]),
                (["plan"], ["-m"]),
                (["plan", "-m", "m"], ["--evict"]),
                (["plan", "-m", "m", "--evict", "half"], ["--evict", "half"]),
                (["plan", "-m", "m", "--evict", "1%", "--context", "x"], ["--context", "x"]),
                (["profile", "--bogus"], ["--bogus", "--refresh"]),
                (["profile", "--set", "profile.read_bytes_per_s=fast"], ["read_bytes_per_s"]),
                (["trace"], ["summary", "svg"]),
                (["trace", "summary"], ["FILE"]),
                (["synth", "--arch", "gpt-9", "-o", "o"], ["--arch", "gpt-9", "smollm2-135m"]),
                (["synth", "--arch", "smollm2-135m", "--type", "f8", "-o", "o"],
                 ["--type", "f8", "q4_1"]),
                (["bench"], ["mailbox"]),
                (["bench", "mailbox", "--repeat", "0"], ["--repeat", "0"]),
        ]:
            self.refused(2, words, *parts)

    def test_what_comes_later_says_so(self):
        m = ["run", "-m", "m.gguf", "-p", "x"]
        for words in [["profile", "--codec", "q8", "-m", "m", "-f", "t"], ["eval", "kl"],
                      ["simulate", "--machine", "this"], ["bench", "ttft", "--repeat", "3"],
                      [*m, "--logprobs", "3"], [*m, "--grammar", "g"],
                      [*m, "--set", "policy.recompute=true"],
                      [*m, "--set", "device.activations=int8"]]:
            self.refused(1, words, "not yet")

    def test_missing_and_broken_files_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            broken = os.path.join(folder, "broken.gguf")
            with open(broken, "wb") as file:
                file.write(b"GGUF" + struct.pack("<IQQ", 3, 1 << 63, 1))
            config = os.path.join(folder, "c.toml")
            with open(config, "w", encoding="utf-8") as file:
                file.write("[storage]\ndepth = 8\nblok = 3\n")
            gone = os.path.join(folder, "gone.gguf")
            self.refused(1, ["inspect", gone], gone)
            self.refused(1, ["inspect", broken], broken)
            self.refused(1, ["inspect", folder], folder)
            self.refused(1, ["tokenize", "-m", gone, "-p", "x"], gone)
            self.refused(1, ["tokenize", "-m", broken, "-p", "x"], broken)
            self.refused(1, ["run", "-m", gone, "-p", "x"], gone)
            self.refused(1, ["run", "-m", broken, "-p", "x"], broken)
            self.refused(1, ["run", "-m", gone, "-f", gone], gone)
            self.refused(1, ["chat", "-m", gone], gone)
            self.refused(1, ["plan", "-m", gone, "--evict", "1%"], gone)
            self.refused(1, ["plan", "-m", broken, "--evict", "1%"], broken)
            self.refused(1, ["profile", "-m", gone], gone)
            self.refused(1, ["logits", "-m", gone, "--tokens", "1", "-o", "o"], gone)
            self.refused(1, ["logits", "-m", gone, "--tokens", "@" + gone, "-o", "o"], gone)
            self.refused(1, ["run", "-m", gone, "-p", "x", "--config", config], config + ":3",
                         "storage.blok")
            self.refused(1, ["run", "-m", gone, "-p", "x", "--config", gone], gone)
            self.refused(1, ["trace", "summary", gone], gone)
            self.refused(1, ["trace", "summary", broken], broken)
            self.refused(1, ["trace", "svg", gone, "-o", gone + ".svg"], gone)
            self.assertFalse(os.path.exists(gone + ".svg"))

    def test_a_device_that_is_not_there_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "m.gguf")
            result = mzcache("run", "-m", model, "-p", "x", "--device", "no such device")
            self.assertEqual(result.returncode, 1)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)


class Devices(unittest.TestCase):
    def test_json(self):
        result = mzcache("devices", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        system = one_object(result.stdout)
        self.assertGreaterEqual(len(system["cores"]), 1)
        for core in system["cores"]:
            self.assertIn(core["class"], ["big", "middle", "little", "any"])
        for device in system["devices"]:
            self.assertIn(device["granularity"], ["chunk", "layer"])
            for key in ["name", "svm", "memory", "kernels", "compute_units"]:
                self.assertTrue(device[key], key)

    def test_text_names_the_same_devices(self):
        system = one_object(mzcache("devices", "--json").stdout)
        text = mzcache("devices").stdout
        for device in system["devices"]:
            self.assertIn(device["name"], text)


class Trace(unittest.TestCase):
    """A trace of two stages, half of the one inside the other."""

    def test_summary_and_picture(self):
        events = [{"name": "thread_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": "gpu"}},
                  {"name": "thread_name", "ph": "M", "pid": 1, "tid": 2, "args": {"name": "io"}},
                  {"name": "layer", "cat": "compute", "ph": "X", "pid": 1, "tid": 1,
                   "ts": 0, "dur": 1000, "args": {"stage": "compute"}},
                  {"name": "read", "cat": "read", "ph": "X", "pid": 1, "tid": 2,
                   "ts": 500, "dur": 1000, "args": {"stage": "read", "bytes": 4096}}]
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "t.json")
            with open(file, "w", encoding="utf-8") as stream:
                json.dump({"traceEvents": events}, stream)
            result = mzcache("trace", "summary", file, "--json")
            self.assertEqual(result.returncode, 0, result.stderr)
            stages = {s["stage"]: s for s in one_object(result.stdout)["stages"]}
            self.assertAlmostEqual(stages["read"]["busy_ms"], 1.0)
            self.assertAlmostEqual(stages["read"]["overlap_compute_percent"], 50.0)
            self.assertIn("read", mzcache("trace", "summary", file).stdout)
            picture = os.path.join(folder, "t.svg")
            self.assertEqual(mzcache("trace", "svg", file, "-o", picture).returncode, 0)
            with open(picture, encoding="utf-8") as stream:
                self.assertIn("<svg", stream.read())


class Synth(unittest.TestCase):
    def test_inspect_and_tokenize_read_what_synth_writes(self):
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "s.gguf")
            result = mzcache("synth", "--arch", "smollm2-135m", "--type", "q4_0", "-o", model)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(os.listdir(folder), ["s.gguf"])
            info = one_object(mzcache("inspect", model, "--json").stdout)
            self.assertEqual(info["architecture"], "llama")
            self.assertEqual(info["sizes"]["layers"], 30)
            self.assertEqual(info["kv_bytes_per_token"], 23040)
            self.assertEqual(len(info["units"]), 31)
            text = "Hello, world\n\tfünf"
            ids = one_object(mzcache("tokenize", "-m", model, "-p", text, "--json").stdout)
            self.assertEqual(set(ids), {"tokens", "pieces"})
            self.assertEqual(len(ids["tokens"]), len(ids["pieces"]))
            piped = one_object(mzcache("tokenize", "-m", model, "--json", stdin=text).stdout)
            self.assertEqual(piped, ids)
            file = os.path.join(folder, "t.txt")
            with open(file, "w", encoding="utf-8") as stream:
                stream.write(text)
            self.assertEqual(
                one_object(mzcache("tokenize", "-m", model, "-f", file, "--json").stdout), ids)
            lines = mzcache("tokenize", "-m", model, "-p", text).stdout.splitlines()
            self.assertEqual([int(line.split()[0]) for line in lines], ids["tokens"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
