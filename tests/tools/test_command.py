#!/usr/bin/env python3
"""The command line without a model: flags, exit statuses, one line for every error."""
import json
import os
import re
import struct
import subprocess
import tempfile
import unittest

from support import BINARY, mzcache, one_object

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))

# A tiny model of random weights; its tokenizer is a dummy, its vocabulary has 320 tokens.
TINY = os.path.join(ROOT, "tests", "golden", "models", "llama-gqa.gguf")
# With these nothing is measured, and nothing said about it.
FIGURES = ["--set", "profile.read_bytes_per_s=1e9", "--set", "profile.decode_bytes_per_s=4e9",
           "--set", "profile.allocate_bytes_per_s=1e10"]

COMMANDS = ["run", "chat", "inspect", "tokenize", "logits", "devices", "trace", "synth", "bench",
            "profile", "plan", "eval", "simulate"]


class Help(unittest.TestCase):
    def test_every_help_has_an_example(self):
        for words in [[], *[[c] for c in COMMANDS], ["trace", "summary"], ["trace", "svg"],
                      ["bench", "mailbox"], ["bench", "ttft"], ["bench", "prefill"],
                      ["bench", "decode"], ["bench", "attention"]]:
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
                ([*m, "--logprobs", "-1"], ["--logprobs", "-1", "0 to 1000"]),
                ([*m, "--repeat-last", "few"], ["--repeat-last", "few"]),
                ([*m, "--thinking", "maybe"], ["--thinking", "maybe", "on", "off"]),
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
                (["bench", "codec", "--simd", "mmx"], ["--simd", "mmx", "scalar", "all"]),
                (["bench", "codec", "--kv-heads", "0"], ["--kv-heads", "0"]),
                (["bench", "codec", "--codec", "q8,q9"], ["--codec", "q9", "q8"]),
                (["logits", "-m", "m", "--tokens", "1", "-o", "-", "--json"], ["-o", "--json"]),
                (["profile", "--codec", "q9", "-m", "m", "-f", "t"], ["--codec", "q9", "entropy"]),
                (["profile", "--codec", "entropy"], ["-m"]),
                (["profile", "-f", "t"], ["-f", "--codec"]),
                (["eval"], ["kl", "lookup", "swap", "perplexity"]),
                (["eval", "kl"], ["-m"]),
                (["eval", "kl", "-m", "m"], ["-f"]),
                (["eval", "kl", "-m", "m", "-f", "t", "--score", "1"], ["--score", "1"]),
                (["eval", "kl", "-m", "m", "-f", "t", "--codec", "q9"], ["--codec", "q9", "q8"]),
                (["eval", "lookup", "-m", "m", "-f", "t", "--codes", "49"], ["--codes", "1 to 48"]),
                (["eval", "swap", "-m", "m", "-f", "t", "--cycles", "1"], ["--cycles", "1"]),
                (["bench", "prefill", "-m", "m.gguf", "-p", "8,x"], ["-p", "x"]),
                (["bench", "decode", "--depth", "0"], ["-m"]),
                (["simulate", "-m", "m.gguf"], ["-m", "--machine this"]),
                (["simulate", "--machine", "that"], ["--machine", "this"]),
        ]:
            self.refused(2, words, *parts)

    def test_what_comes_later_says_so(self):
        m = ["run", "-m", "m.gguf", "-p", "x"]
        self.refused(1, [*m, "--set", "memory.storage_codec=q8"], "not yet")

    def test_a_grammar_that_is_none_is_named_with_the_place(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "bad.gbnf")
            with open(path, "w", encoding="utf-8") as file:
                file.write('root ::= "a"\n  | [b')
            m = ["run", "-m", "m.gguf", "-p", "x", "--grammar"]
            self.refused(1, [*m, path], "bad.gbnf: line 2, column 5", "has no ]")
            self.refused(1, [*m, path + ".none"], "bad.gbnf.none")

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

    def test_values_only_the_model_can_judge_are_usage_too(self):
        run = ["run", "-m", TINY, "--tokens", "1,2", *FIGURES]
        chat = ["chat", "-m", TINY, *FIGURES]
        logits = ["logits", "-m", TINY, "-o", os.devnull, *FIGURES]
        for words, parts in [
                ([*run, "--chat-template", "foo"], ["--chat-template", "foo", "chatml", "raw"]),
                ([*chat, "--chat-template", "foo"], ["--chat-template", "foo", "chatml", "raw"]),
                ([*run, "--thinking", "on"], ["--thinking", "no such switch", "default"]),
                ([*chat, "--thinking", "off"], ["--thinking", "no such switch", "default"]),
                ([*run, "-c", "1000k"], ["-c", "1024000", "allowed: 1 to "]),
                ([*chat, "-c", "1000k"], ["-c", "1024000", "allowed: 1 to "]),
                ([*logits, "--tokens", "1", "-c", "1000k"], ["-c", "1024000", "allowed: 1 to "]),
                (["plan", "-m", TINY, "--evict", "1%", "--context", "1000k", *FIGURES],
                 ["--context", "1024000", "allowed: 0 to "]),
                ([*run, "--tokens", "1,320"], ["--tokens", "320", "0 to 319"]),
                ([*logits, "--tokens", "1,320"], ["--tokens", "320", "0 to 319"]),
                ([*logits, "--tokens", "1,x"], ["--tokens", "x", "1,2,3"]),
                ([*run, "--logit-bias", "320=1"], ["--logit-bias", "320", "320 tokens, 0 to 319"]),
                ([*chat, "--logit-bias", "1=1", "--logit-bias", "99999=-1"],
                 ["--logit-bias", "99999", "0 to 319"]),
        ]:
            self.refused(2, words, *parts)

    def test_a_device_that_is_not_there_is_named(self):
        tiny = ["-m", TINY, *FIGURES]
        for words in [["run", *tiny, "--tokens", "1"], ["chat", *tiny],
                      ["logits", *tiny, "--tokens", "1", "-o", os.devnull],
                      ["plan", *tiny, "--evict", "1%"], ["profile"], ["devices"],
                      ["bench", "prefill", *tiny, "-p", "8", "--depth", "0"]]:
            self.refused(2, [*words, "--device", "nosuch"], "--device", "nosuch", "there are: ")
            self.refused(2, [*words, "--set", "device.name=nosuch"], "--set device.name=nosuch",
                         "there are: ")
        self.refused(2, ["run", *tiny, "--tokens", "1", "--set", "placement.prefill.cores=[999]"],
                     "--set placement.prefill.cores=[999]", "usable: ")
        with tempfile.TemporaryDirectory() as folder:
            config = os.path.join(folder, "c.toml")
            with open(config, "w", encoding="utf-8") as file:
                file.write('[device]\nname = "nosuch"\n')
            self.refused(1, ["run", *tiny, "--tokens", "1", "--config", config], "device.name",
                         "there are: ")

    def test_what_cannot_be_written_is_known_before_the_work(self):
        # The model is not there either: that it is not spoken of shows what was looked at first.
        gone = "/nonexistent/folder/x"
        for words in [["run", "-m", "m", "-p", "x"], ["chat", "-m", "m"],
                      ["logits", "-m", "m", "--tokens", "1", "-o", os.devnull],
                      ["eval", "perplexity", "-m", "m", "-f", TINY],
                      ["bench", "evict", "-m", "m"], ["simulate"], ["inspect", "m"],
                      ["synth", "--arch", "smollm2-135m", "-o", gone + ".gguf"]]:
            self.refused(1, [*words, "--trace", gone], gone + ":", "No such file or directory",
                         "choose")
        self.refused(1, ["run", "-m", "m", "-p", "x", "--set", "trace.file=" + gone], gone)
        self.refused(1, ["logits", "-m", "m", "--tokens", "1", "-o", gone], gone, "choose")
        with tempfile.TemporaryDirectory() as folder:
            self.refused(1, ["run", "-m", "m", "-p", "x", "--trace", folder], folder,
                         "Is a directory")
            file = os.path.join(folder, "t.json")
            self.refused(1, ["run", "-m", "m", "-p", "x", "--trace", file], "open model: m")
            self.assertEqual(os.listdir(folder), [])

    def test_failures_say_what_to_do(self):
        with tempfile.TemporaryDirectory() as folder:
            text = os.path.join(folder, "t.txt")
            with open(text, "w", encoding="utf-8") as file:
                file.write("not a model\n")
            tiny = ["run", "-m", TINY, "--tokens", "1", *FIGURES]
            for words, parts in [
                    (["inspect", "gone.gguf"], ["gone.gguf", "tools/get-model.sh"]),
                    (["inspect", text], [text, "starts with \"GGUF\"", "convert_hf_to_gguf.py"]),
                    ([*tiny, "--set", "memory.swap_directory=/nonexistent"],
                     ["memory.swap_directory", "/nonexistent", "name a folder"]),
                    (["run", "-m", TINY, "-f", folder + "/no"], [folder + "/no", "give a file"]),
                    (["run", "-m", TINY, "--tokens", "1", "--config", folder + "/no"],
                     [folder + "/no", "give a TOML file"]),
                    (["run", "-m", TINY, "-c", "2", "--tokens", "1,2,3", *FIGURES],
                     ["the context holds 2", "-c"]),
                    (["eval", "perplexity", "-m", TINY, "-f", text, *FIGURES],
                     [text, "0 tokens, 1024 are needed", "longer text"]),
                    (["trace", "summary", text], [text, "--trace"]),
                    (["synth", "--arch", "smollm2-135m", "-o", folder + "/no/s"],
                     [folder + "/no/s", "choose"]),
                    (["trace", "svg", folder + "/no", "-o", text], [folder + "/no", "--trace"]),
            ]:
                self.refused(1, words, *parts)


class EveryCommand(unittest.TestCase):
    """What the contract promises of every command."""

    ALL = [*[[c] for c in COMMANDS if c not in ("trace", "bench", "eval")],
           ["trace", "summary"], ["trace", "svg"], ["eval", "kl"], ["eval", "lookup"],
           ["eval", "swap"], ["eval", "perplexity"], ["bench", "mailbox"], ["bench", "codec"],
           ["bench", "evict"], ["bench", "prefill"], ["bench", "decode"], ["bench", "attention"]]

    def test_has_the_common_flags(self):
        for words in self.ALL:
            with self.subTest(words):
                text = mzcache(*words, "--help").stdout
                for flag in ["--config", "--set", "--device", "--trace", "--json"]:
                    self.assertIn(flag, text)

    def test_judges_the_configuration(self):
        with tempfile.TemporaryDirectory() as folder:
            for words in [["simulate", "--context", "1k", "--remaining", "50"],
                          ["bench", "mailbox", "--repeat", "1"],
                          ["bench", "codec", "--repeat", "1", "--codec", "none"],
                          ["synth", "--arch", "smollm2-135m", "-o", folder + "/s"],
                          ["trace", "summary", folder + "/t"],
                          ["trace", "svg", folder + "/t", "-o", folder + "/t.svg"]]:
                with self.subTest(words):
                    result = mzcache(*words, "--set", "storage.depth=0")
                    self.assertEqual((result.returncode, result.stdout), (2, ""))
                    self.assertIn("storage.depth", result.stderr)
            self.assertEqual(os.listdir(folder), [])

    def test_a_command_that_records_nothing_writes_a_trace_without_spans(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "t.json")
            for words in [["inspect", TINY], ["devices"], ["tokenize", "-m", TINY, "-p", "x"]]:
                with self.subTest(words):
                    result = mzcache(*words, "--json", "--trace", file)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    one_object(result.stdout)
                    self.assertIn(file, result.stderr)
                    stages = one_object(mzcache("trace", "summary", file, "--json").stdout)
                    self.assertEqual([s for s in stages["stages"] if s["spans"] > 0], [])
                    os.remove(file)

    def test_simulate_traces_its_virtual_actors(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "t.json")
            words = ["simulate", "--context", "1k", "--remaining", "50", "--policy", "mzcache",
                     "--json"]
            result = mzcache(*words, "--trace", file)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(one_object(result.stdout), one_object(mzcache(*words).stdout))
            row = one_object(result.stdout)["rows"][0]
            stages = {s["stage"]: s for s in
                      one_object(mzcache("trace", "summary", file, "--json").stdout)["stages"]}
            # Rows of the embedding are read too, which are no units.
            self.assertAlmostEqual(stages["read"]["bytes"], row["bytes_read"], delta=1 << 16)
            self.assertGreater(row["bytes_read"], 1 << 20)


class Tiny(unittest.TestCase):
    """A whole run of a model of random weights."""

    def test_logits_to_standard_output(self):
        words = ["logits", "-m", TINY, "--tokens", "1,2,3", "--positions", "0,-1", *FIGURES]
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "o.f32")
            self.assertEqual(mzcache(*words, "-o", file).returncode, 0)
            with open(file, "rb") as stream:
                expected = stream.read()
            self.assertEqual(len(expected), 2 * 320 * 4)
            result = subprocess.run([os.path.abspath(BINARY), *words, "-o", "-"], check=False,
                                    capture_output=True, cwd=folder, timeout=300)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stdout, expected)
            self.assertEqual(os.listdir(folder), ["o.f32"])

    def test_chat_with_json_prints_one_object(self):
        lines = "/evict 50%\nhello\n/evict none\n/quit\n"
        result = mzcache("chat", "-m", TINY, "-n", "4", "--json", *FIGURES, stdin=lines)
        self.assertEqual(result.returncode, 0, result.stderr)
        chat = one_object(result.stdout)
        self.assertIn("[evicted", result.stderr)
        self.assertEqual(chat["model"]["architecture"], "llama")
        self.assertEqual(len(chat["evictions_after"]), 2 - sum(
            len(turn["evictions"]) for turn in chat["turns"]))

    def test_inspect_of_what_cannot_be_computed_says_what_is_known(self):
        with open(TINY, "rb") as file:
            tiny = file.read()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "other.gguf")
            with open(path, "wb") as file:
                file.write(tiny.replace(b"llama", b"otter"))
            known = one_object(mzcache("inspect", TINY, "--json").stdout)
            self.assertEqual((known["supported"], known["unsupported"]), (True, ""))
            info = one_object(mzcache("inspect", path, "--json").stdout)
            self.assertIs(info["supported"], False)
            for part in ["otter", "supported: ", "qwen3"]:
                self.assertIn(part, info["unsupported"])
            for key in ["sizes", "tensor_types", "kv_bytes_per_token", "parameters"]:
                self.assertEqual(info[key], known[key], key)
            self.assertEqual(info["weights_bytes"],
                             sum(use["bytes"] for use in info["tensor_types"]))
            self.assertIsNone(info["chunk_bytes"])
            text = mzcache("inspect", path).stdout
            self.assertIn("not computed", text)
            self.assertNotIn(" 0 ", text)
            # Nothing is said of sizes: no number is made up.
            with open(path, "wb") as file:
                file.write(tiny.replace(b"llama.", b"otter.").replace(b"llama", b"stoat"))
            info = one_object(mzcache("inspect", path, "--json").stdout)
            self.assertEqual(info["architecture"], "stoat")
            for key in ["layers", "hidden", "heads", "kv_heads", "head_dim", "context_length"]:
                self.assertIsNone(info["sizes"][key], key)
            self.assertIsNone(info["kv_bytes_per_token"])
            self.assertIn("? layers", mzcache("inspect", path).stdout)


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
            drawn = mzcache("trace", "svg", file, "-o", picture, "--json")
            self.assertEqual(one_object(drawn.stdout), {"file": file, "svg_file": picture})


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
            self.pieces_are_the_text(model, file)

    def pieces_are_the_text(self, model, file):
        """Every byte comes back: parts of characters, bytes that are no text, escapes in the text."""
        for data in ["Hé 😀 ﷽ 日本".encode(), "<0xE2> <0x3C0x41> <0xZZ>".encode(),
                     b"\xff\xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80 \xe2\x82", bytes(range(256))]:
            with open(file, "wb") as stream:
                stream.write(data)
            ids = one_object(mzcache("tokenize", "-m", model, "-f", file, "--json").stdout)
            back = b"".join(
                re.sub(rb"<0x([0-9A-F]{2})>", lambda m: bytes([int(m.group(1), 16)]),
                       piece.encode()) for piece in ids["pieces"])
            self.assertEqual(back, data)

    def test_json(self):
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "s.gguf")
            written = one_object(mzcache("synth", "--arch", "smollm2-135m", "--type", "q4_0", "-o",
                                         model, "--seed", "3", "--json").stdout)
            self.assertEqual(written, {"file": model, "file_bytes": os.path.getsize(model),
                                       "arch": "smollm2-135m", "type": "q4_0", "seed": 3})


if __name__ == "__main__":
    unittest.main(verbosity=2)
