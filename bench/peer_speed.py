#!/usr/bin/env python3
"""Speed beside llama.cpp's, on the same cores, in turns.

    cmake --preset release && cmake --build --preset release
    bench/peer_speed.py -m MODEL [--prompt 512@0,8@0,8@8k] [--decode 0,8k] [--rounds 2]

Each round runs `mzcache bench prefill|decode`, then llama.cpp on the same file: ours, theirs, ours,
theirs. Theirs runs with flash attention on and off, and the better counts. A context of theirs is
filled once per depth and length (with random tokens, or, with --random-kv, with a state file whose
keys and values are random: filling 32k by computing takes long). Printed: the medians and ours over
theirs. On first use a virtual environment is made (--venv) and llama-cpp-python built in it for
this processor, which takes some minutes.
"""

import argparse
import ctypes
import json
import os
import random
import statistics
import subprocess
import sys
import time

from peer_environment import FOLDER, ROOT, enter


def tokens(text):
    return int(text[:-1]) * 1024 if text.endswith("k") else int(text)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--prompt", default="512@0,8@0", help="N@DEPTH, comma-separated")
    parser.add_argument("--decode", default="0", help="depths, comma-separated")
    parser.add_argument("-n", type=int, default=32, help="tokens decoded in a run")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3, help="runs in each round")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--random-kv", action="store_true")
    parser.add_argument("--set", action="append", default=[], help="passed on to mzcache")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--mzcache", default=str(ROOT / "build/release/bin/mzcache"))
    parser.add_argument("--venv", default=FOLDER)
    return parser.parse_args()


class Theirs:
    """llama.cpp's model, with a context for each setting of flash attention."""

    def __init__(self, path, length, threads, random_kv):
        import llama_cpp
        self.api = llama_cpp
        self.random_kv = random_kv
        llama_cpp.llama_log_set(self._quiet(), ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        parameters = llama_cpp.llama_model_default_params()
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), parameters)
        if not self.model:
            sys.exit(f"llama.cpp cannot load {path}")
        vocabulary = llama_cpp.llama_model_get_vocab(self.model)
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(vocabulary)
        self.contexts = {}
        self.depth = {}
        for flash in (0, 1):
            options = llama_cpp.llama_context_default_params()
            options.n_ctx = length
            options.n_batch = options.n_ubatch = 512
            options.n_threads = options.n_threads_batch = threads
            options.flash_attn_type = flash
            self.contexts[flash] = llama_cpp.llama_init_from_model(self.model, options)
            self.depth[flash] = 0
        self.draw = random.Random(1)

    def _quiet(self):
        self.log = self.api.llama_log_callback(lambda level, text, data: None)
        return self.log

    def feed(self, flash, count, first):
        """Milliseconds for `count` tokens from position `first` on, the last one's logits wanted."""
        api, context = self.api, self.contexts[flash]
        begin = time.perf_counter()
        for done in range(0, count, 512):
            size = min(512, count - done)
            batch = api.llama_batch_init(size, 0, 1)
            batch.n_tokens = size
            for i in range(size):
                batch.token[i] = self.draw.randrange(self.vocabulary)
                batch.pos[i] = first + done + i
                batch.n_seq_id[i] = 1
                batch.seq_id[i][0] = 0
                batch.logits[i] = done + i + 1 == count
            if api.llama_decode(context, batch) != 0:
                sys.exit("llama.cpp: llama_decode failed")
            api.llama_batch_free(batch)
        api.llama_synchronize(context)
        return (time.perf_counter() - begin) * 1e3

    def at(self, flash, depth):
        """The context filled up to `depth`, whatever lay behind forgotten."""
        memory = self.api.llama_get_memory(self.contexts[flash])
        if self.depth[flash] < depth:
            # What the last case left behind would be in the way of what follows.
            self.api.llama_memory_seq_rm(memory, 0, self.depth[flash], -1)
            if self.random_kv and depth > 512:
                self.fill_random(flash, depth)
            else:
                self.feed(flash, depth - self.depth[flash], self.depth[flash])
            self.depth[flash] = depth
        if not self.api.llama_memory_seq_rm(memory, 0, depth, -1):
            # Sliding windows forget: begin again.
            self.api.llama_memory_clear(memory, True)
            self.depth[flash] = 0
            if depth > 0:
                self.feed(flash, depth, 0)
                self.depth[flash] = depth
        self.depth[flash] = depth

    def fill_random(self, flash, depth):
        """A state as after `depth` tokens with random keys and values: that of a few tokens, taken
        apart and written again with more cells."""
        api, context = self.api, self.contexts[flash]
        api.llama_memory_clear(api.llama_get_memory(context), True)
        self.feed(flash, 4, 0)
        size = api.llama_state_seq_get_size(context, 0)
        few = (ctypes.c_uint8 * size)()
        api.llama_state_seq_get_data(context, few, size, 0)
        many = widened_state(bytes(few), 4, depth)
        if many is None:
            api.llama_memory_clear(api.llama_get_memory(context), True)
            self.feed(flash, depth, 0)
            return
        data = (ctypes.c_uint8 * len(many)).from_buffer_copy(many)
        api.llama_memory_clear(api.llama_get_memory(context), True)
        if api.llama_state_seq_set_data(context, data, len(many), 0) == 0:
            sys.exit("llama.cpp refused a state made for it")

    def prefill(self, flash, count, depth):
        self.at(flash, depth)
        return self.feed(flash, count, depth)

    def decode(self, flash, count, depth):
        self.at(flash, depth)
        return sum(self.feed(flash, 1, depth + i) for i in range(count)) / count


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        self.at += count
        if self.at > len(self.data):
            raise ValueError("short")
        return self.data[self.at - count:self.at]

    def number(self, bytes_each):
        return int.from_bytes(self.take(bytes_each), "little")


def random_halves(count):
    """`count` bytes of FP16 values around one."""
    import numpy as np
    values = np.random.default_rng(1).normal(0, 1, min(count // 2, 1 << 20)).astype(np.float16)
    return np.resize(values, count // 2).tobytes()


def widened_state(data, few, many):
    """The sequence state `data` of `few` cells as one of `many`; None where it is laid out in
    another way than this knows. Cells, then keys and values of every layer: in rows, or, without
    flash attention, values by dimension."""
    try:
        reader, out = Reader(data), []
        out.append(reader.take(8))  # magic, flags
        streams = reader.number(4)
        cells = reader.number(4)
        if streams != 1 or cells != few:
            return None
        out.append((1).to_bytes(4, "little") + many.to_bytes(4, "little"))
        first = reader.take(8)  # position, count of sequence ids
        width = 8 + 4 * int.from_bytes(first[4:8], "little")
        reader.at -= 8
        tails = [reader.take(width)[4:] for _ in range(few)]
        out.extend(position.to_bytes(4, "little") + tails[0] for position in range(many))
        transposed, layers = reader.number(4), reader.number(4)
        out.append(transposed.to_bytes(4, "little") + layers.to_bytes(4, "little"))
        for values in (False, True):
            for _ in range(layers):
                out.append(reader.take(4))  # type
                if values and transposed:
                    head = reader.take(8)
                    element, dims = (int.from_bytes(head[i:i + 4], "little") for i in (0, 4))
                    row = element * dims
                else:
                    head = reader.take(8)
                    row = int.from_bytes(head, "little")
                out.append(head)
                reader.take(row * few)
                out.append(random_halves(row * many))
        return b"".join(out) if reader.at == len(data) else None
    except ValueError:
        return None


def ours(arguments, case):
    kind, count, depth = case
    command = [arguments.mzcache, "bench", kind, "-m", arguments.model, "--depth", str(depth),
               "--repeat", str(arguments.repeat), "--json", "-p" if kind == "prefill" else "-n",
               str(count)]
    for assignment in arguments.set:
        command += ["--set", assignment]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    result = json.loads(done.stdout)
    return result["rows"][0]["ms"], result["machine"], result["rows"][0]


def median_theirs(peer, arguments, case, flash):
    kind, count, depth = case
    run = peer.prefill if kind == "prefill" else peer.decode
    if depth == 0:
        run(flash, min(count, 8), depth)  # warm
    return statistics.median(run(flash, count, depth) for _ in range(arguments.repeat))


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return "unknown processor"


def main():
    arguments = parse_arguments()
    enter(arguments.venv)
    cases = [("prefill", tokens(part.split("@")[0]), tokens(part.split("@")[1]))
             for part in arguments.prompt.split(",") if part]
    cases += [("decode", arguments.n, tokens(depth)) for depth in arguments.decode.split(",")
              if depth]
    cases.sort(key=lambda case: case[2])
    length = max(depth + max(count, 512) for _, count, depth in cases)
    peer = Theirs(arguments.model, length + 512, arguments.threads, arguments.random_kv)
    rows = []
    machine = {}
    for case in cases:
        mine, with_flash, without = [], [], []
        for _ in range(arguments.rounds):
            time.sleep(0.5)  # their threads still spin for a while
            ms, machine, ours_row = ours(arguments, case)
            mine.append(ms)
            without.append(median_theirs(peer, arguments, case, 0))
            with_flash.append(median_theirs(peer, arguments, case, 1))
        theirs = min(statistics.median(with_flash), statistics.median(without))
        mine = statistics.median(mine)
        rows.append({"kind": case[0], "tokens": case[1], "depth": case[2], "ours_ms": mine,
                     "theirs_ms": theirs, "theirs_flash_ms": statistics.median(with_flash),
                     "theirs_no_flash_ms": statistics.median(without), "ratio": theirs / mine,
                     "fma_fraction": ours_row["fma_fraction"],
                     "bandwidth_fraction": ours_row["bandwidth_fraction"]})
        if not arguments.json:
            if len(rows) == 1:
                print(f"{processor()}, vectors of {machine['float_width']} floats, "
                      f"{arguments.threads} threads; {machine['kernels']} kernels, "
                      f"{machine['activations']} activations")
                print(f"{'case':>16} {'ours ms':>9} {'theirs ms':>10} {'no flash':>9} "
                      f"{'flash':>9} {'ratio':>6} {'of FMA':>7} {'of memory':>9}")
            row = rows[-1]
            name = (f"{row['tokens']} at {row['depth']}" if row["kind"] == "prefill"
                    else f"decode at {row['depth']}")
            print(f"{name:>16} {mine:9.2f} {theirs:10.2f} {row['theirs_no_flash_ms']:9.2f} "
                  f"{row['theirs_flash_ms']:9.2f} {row['ratio']:6.2f} "
                  f"{row['fma_fraction']:7.0%} {row['bandwidth_fraction']:9.0%}", flush=True)
    if arguments.json:
        print(json.dumps({"rows": rows, "machine": {**machine, "processor": processor(),
                                                    "threads": arguments.threads}}))


if __name__ == "__main__":
    main()
