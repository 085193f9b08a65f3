#!/usr/bin/env python3
"""run, logits and the rest with the real model: shapes, evictions, and that they change nothing."""
import math
import os
import signal
import struct
import subprocess
import tempfile
import time
import unittest

from support import BINARY, MODEL, mzcache, need_model, one_object

TURNS = ["-p", "Name a colour.", "-p", "Name another one.", "-p", "And a third?"]
SWAP = "/var/tmp"
# With these nothing is measured, and nothing said about it.
FIGURES = ["--set", "profile.read_bytes_per_s=1e9", "--set", "profile.decode_bytes_per_s=4e9",
           "--set", "profile.allocate_bytes_per_s=1e10"]


def rows(path, width):
    with open(path, "rb") as file:
        data = file.read()
    values = struct.unpack(f"<{len(data) // 4}f", data)
    return [values[i:i + width] for i in range(0, len(values), width)]


def rms(a, b):
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b)) / len(a))


class Run(unittest.TestCase):
    def run_json(self, *flags):
        result = mzcache("run", "-m", MODEL, "-n", "12", "--json", *flags)
        self.assertEqual(result.returncode, 0, result.stderr)
        return one_object(result.stdout)

    def test_shape(self):
        run = self.run_json(*TURNS, "--evict", "50%", "--evict", "none")
        self.assertEqual(set(run), {"model", "device", "turns", "load", "footprint_bytes",
                                    "scratch_bytes", "floor_bytes", "peak_rss_bytes"})
        self.assertEqual(set(run["model"]), {"name", "architecture", "weights_bytes", "file"})
        self.assertGreaterEqual(set(run["load"]), {"metadata_ms", "ready_ms", "first_token_ms"})
        self.assertEqual(len(run["turns"]), 3)
        context = 0
        for number, turn in enumerate(run["turns"]):
            self.assertIn(turn["stop"], ["eos", "length"])
            self.assertLessEqual(len(turn["tokens"]), 12)
            self.assertGreater(turn["ttft_ms"], 0)
            self.assertGreater(turn["context_tokens"], context)
            context = turn["context_tokens"]
            self.assertEqual(len(turn["evictions"]), 0 if number == 0 else 2)
            self.assertGreaterEqual(
                set(turn["restore"]),
                {"bytes_read", "bytes_decoded", "allocate_ms", "read_ms", "decode_ms", "wait_ms",
                 "overlap_percent"})
        first, second = run["turns"][1]["evictions"]
        self.assertGreaterEqual(first["freed_bytes"], first["requested_bytes"])
        self.assertAlmostEqual(first["requested_bytes"], run["footprint_bytes"] / 2,
                               delta=run["footprint_bytes"] * 0.05)
        self.assertLessEqual(first["remaining_percent"], 50.1)
        self.assertEqual(second["requested_bytes"], 0)
        self.assertEqual(second["freed_bytes"], 0)
        self.assertEqual(set(first["units"]),
                         {"weights_dropped", "head_dropped", "kv_compressed", "kv_stored",
                          "kv_moved", "kv_clean", "kv_dropped"})

    def test_nothing_lossy_changes_nothing(self):
        tokens = [t["tokens"] for t in self.run_json(*TURNS, "--codec", "none")["turns"]]
        for amounts in [["--evict", "100%"], ["--evict", "30%", "--evict", "64MiB"]]:
            with self.subTest(amounts):
                evicted = self.run_json(*TURNS, "--codec", "none", *amounts)
                self.assertEqual([t["tokens"] for t in evicted["turns"]], tokens)

    def test_the_text_streams_to_stdout_and_nothing_else(self):
        result = mzcache("run", "-m", MODEL, "-n", "12", "-p", "Name a colour.")
        self.assertEqual(result.returncode, 0, result.stderr)
        run = self.run_json("-p", "Name a colour.")
        self.assertEqual(result.stdout, run["turns"][0]["text"] + "\n")

    def test_ids_as_tokenize_prints_them(self):
        text = "The capital of France is"
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "ids.json")
            with open(file, "w", encoding="utf-8") as stream:
                stream.write(mzcache("tokenize", "-m", MODEL, "-p", text, "--json").stdout)
            by_ids = self.run_json("--tokens", "@" + file)
            by_text = self.run_json("--raw", "-p", text)
            self.assertEqual(by_ids["turns"][0]["tokens"], by_text["turns"][0]["tokens"])

    def test_interrupted(self):
        before = set(os.listdir(SWAP))
        with tempfile.TemporaryDirectory() as folder:
            for number in [signal.SIGINT, signal.SIGTERM]:
                process = subprocess.Popen(
                    [BINARY, "run", "-m", MODEL, "-n", "5000", "-c", "8k", "-p",
                     "Write a very long story.", "--logit-bias", "2=-1000"],
                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder)
                self.assertTrue(process.stdout.read(1))  # the answer has begun
                process.send_signal(number)
                process.stdout.read()
                self.assertEqual(process.wait(timeout=60), 130)
                process.stdout.close()
            self.assertEqual(os.listdir(folder), [])
        self.assertEqual({n for n in set(os.listdir(SWAP)) - before if "mzcache" in n}, set())

    def test_a_trace_of_the_run(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "t.json")
            self.run_json(*TURNS, "--evict", "100%", "--trace", file)
            stages = one_object(mzcache("trace", "summary", file, "--json").stdout)["stages"]
            names = {stage["stage"] for stage in stages}
            self.assertIn("compute", names)
            self.assertIn("read", names)


class Notices(unittest.TestCase):
    def test_what_the_device_cannot_have_is_said_once(self):
        flags = ["run", "-m", MODEL, "-n", "1", "--temp", "0", "-p", "Hi"]
        self.assertNotIn("compiled kernels", mzcache(*flags, "--json").stderr)
        # A file is no folder, so nothing can be kept in it. PoCL keeps what it needs elsewhere.
        with tempfile.NamedTemporaryFile() as file, tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "XDG_CACHE_HOME": file.name, "POCL_CACHE_DIR": folder}
            result = subprocess.run([BINARY, *flags, "--json"], capture_output=True, text=True,
                                    env=environment, timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("compiled kernels are not kept"), 1, result.stderr)


class Logits(unittest.TestCase):
    IDS = ",".join(str(100 + (7 * i) % 4000) for i in range(600))

    def logits(self, folder, *flags):
        file = os.path.join(folder, f"{time.monotonic_ns()}.f32")
        result = mzcache("logits", "-m", MODEL, "--tokens", self.IDS, "-o", file, "--json",
                         *flags)
        self.assertEqual(result.returncode, 0, result.stderr)
        report = one_object(result.stdout)
        return rows(file, report["vocabulary"]), report

    def test_rows_and_positions(self):
        with tempfile.TemporaryDirectory() as folder:
            some, report = self.logits(folder, "--positions", "0,5,-1")
            self.assertEqual(report["positions"], [0, 5, 599])
            self.assertEqual(len(some), 3)
            last, _ = self.logits(folder)
            self.assertEqual(last[0], some[2])
            split, _ = self.logits(folder, "--positions", "5,-1,0", "--at", "100", "--at", "300")
            self.assertLess(rms(split[0], some[1]), 0.02)
            self.assertLess(rms(split[1], some[2]), 0.02)

    def test_an_eviction_changes_no_bit_without_a_lossy_codec(self):
        with tempfile.TemporaryDirectory() as folder:
            at = ["--at", "300", "--at", "500"]
            reference, _ = self.logits(folder, *at)
            evicted, report = self.logits(folder, "--codec", "none", "--evict", "100%", "--at",
                                          "300", "--evict", "50%", "--at", "500")
            self.assertEqual(evicted, reference)
            self.assertEqual(len(report["evictions"]), 2)
            self.assertLess(report["evictions"][0]["remaining_percent"], 0.001)
            lossy, _ = self.logits(folder, "--codec", "q8", "--evict", "30%", "--at", "300",
                                   "--at", "500")
            self.assertLess(rms(lossy[0], reference[0]), 0.1)

    def test_a_failed_run_leaves_no_file(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "o.f32")
            result = mzcache("logits", "-m", MODEL, "--tokens", "1,99999999", "-o", file,
                             *FIGURES)
            self.assertEqual(result.returncode, 2)
            self.assertEqual(os.listdir(folder), [])


class Piped(unittest.TestCase):
    def test_chat_reads_a_pipe_in_order(self):
        lines = "Name a colour.\n/evict 50%\n/status\nAnother one.\n/restore\n/reset\n/nope\n/quit\n"
        result = mzcache("chat", "-m", MODEL, "-n", "8", stdin=lines)
        self.assertEqual(result.returncode, 0, result.stderr)
        order = [result.stdout.find(part) for part in
                 ["first token after", "[evicted", "resident", "[restored",
                  "[conversation forgotten]", "no command /nope"]]
        self.assertNotIn(-1, order, result.stdout)
        self.assertEqual(order, sorted(order), result.stdout)


if __name__ == "__main__":
    need_model()
    unittest.main(verbosity=2)
