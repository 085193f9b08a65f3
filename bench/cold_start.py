#!/usr/bin/env python3
"""From the start of a process to its first token, the model not in the page cache; beside llama.cpp.

    cmake --preset release && cmake --build --preset release
    bench/cold_start.py -m MODEL [--prompt-tokens 64] [--rounds 5]

Each round starts one process for each way of loading, in turns: ours, llama.cpp with mmap, ours,
llama.cpp without mmap, ours, llama.cpp with direct I/O (where the version has it). Before each one the
model's pages are dropped from the page cache, and what is left of them is measured; with --drop-all,
which needs root, everything is dropped, libraries too. One run of each comes first and does not count: it
compiles kernels and measures the profile. Printed are medians of two times: from starting the process
(ours: to its end), and from beginning to load the model (ours: `load.first_token_ms` of `mzcache run --json`; theirs:
without Python and its libraries being loaded). Both compute the same ids on as many threads as there
are cores. On first use a virtual environment is made (--venv) and llama-cpp-python built in it, which
takes some minutes.
"""

import argparse
import ctypes
import json
import mmap
import os
import random
import statistics
import subprocess
import sys
import time

from peer_environment import FOLDER, ROOT, enter

OURS = "mzcache"
CONTEXT = 512
FIRST_ID, IDS = 300, 10000  # no special tokens in any vocabulary here


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--prompt-tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--drop-all", action="store_true", help="the whole page cache; needs root")
    parser.add_argument("--set", action="append", default=[], help="passed on to mzcache")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--mzcache", default=str(ROOT / "build/release/bin/mzcache"))
    parser.add_argument("--venv", default=FOLDER)
    parser.add_argument("--child", help=argparse.SUPPRESS)  # one start of theirs, this way
    return parser.parse_args()


def prompt(arguments):
    draw = random.Random(1)
    return [draw.randrange(FIRST_ID, IDS) for _ in range(arguments.prompt_tokens)]


# ---------------------------------------------------------------- theirs, in a process of its own


def load_ways():
    """Ways of loading that this version of llama.cpp offers: a name, and what sets it."""
    import llama_cpp
    fields = {field[0] for field in llama_cpp.llama_model_params._fields_}
    if "load_mode" in fields:
        return {"llama.cpp mmap": {"load_mode": llama_cpp.LLAMA_LOAD_MODE_MMAP},
                "llama.cpp no mmap": {"load_mode": llama_cpp.LLAMA_LOAD_MODE_NONE},
                "llama.cpp direct I/O": {"load_mode": llama_cpp.LLAMA_LOAD_MODE_DIRECT_IO}}
    ways = {"llama.cpp mmap": {"use_mmap": True}, "llama.cpp no mmap": {"use_mmap": False}}
    if "use_direct_io" in fields:
        for settings in ways.values():
            settings["use_direct_io"] = False
        ways["llama.cpp direct I/O"] = {"use_mmap": False, "use_direct_io": True}
    return ways


def child(arguments):
    """Loads, computes the prompt, and says how long it took until the last token's logits."""
    import llama_cpp as api
    import numpy
    log = api.llama_log_callback(lambda level, text, data: None)
    api.llama_log_set(log, ctypes.c_void_p(0))
    ids = prompt(arguments)
    begin = time.monotonic()
    api.llama_backend_init()
    parameters = api.llama_model_default_params()
    for name, value in load_ways()[arguments.child].items():
        setattr(parameters, name, value)
    model = api.llama_model_load_from_file(arguments.model.encode(), parameters)
    if not model:
        sys.exit(f"llama.cpp cannot load {arguments.model}")
    options = api.llama_context_default_params()
    options.n_ctx = options.n_batch = options.n_ubatch = CONTEXT
    options.n_threads = options.n_threads_batch = arguments.threads
    context = api.llama_init_from_model(model, options)
    tokens = (api.llama_token * len(ids))(*ids)
    if api.llama_decode(context, api.llama_batch_get_one(tokens, len(ids))) != 0:
        sys.exit("llama.cpp: llama_decode failed")
    api.llama_synchronize(context)
    logits = api.llama_get_logits_ith(context, -1)
    vocabulary = api.llama_vocab_n_tokens(api.llama_model_get_vocab(model))
    best = int(numpy.ctypeslib.as_array(logits, (vocabulary,)).argmax())
    end = time.monotonic()
    print(json.dumps({"load_ms": (end - begin) * 1e3, "end": end, "token": best}), flush=True)
    os._exit(0)  # giving everything back is not what is measured


# ---------------------------------------------------------------- the comparison


def cached_percent(path):
    """How much of a file the page cache holds."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                          ctypes.c_int, ctypes.c_long]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    size = os.path.getsize(path)
    pages = (size + mmap.PAGESIZE - 1) // mmap.PAGESIZE
    flags = (ctypes.c_ubyte * pages)()
    with open(path, "rb") as file:
        begin = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_PRIVATE, file.fileno(), 0)
    failed = libc.mincore(begin, size, flags)
    libc.munmap(begin, size)
    return float("nan") if failed else 100 * sum(flag & 1 for flag in flags) / pages


def drop(arguments):
    """The model out of the page cache; percent of it that is still there."""
    with open(arguments.model, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if arguments.drop_all:
        with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
            file.write("3")
    return cached_percent(arguments.model)


def start(arguments, way):
    """One start: milliseconds from the process's and from the model's beginning."""
    if way == OURS:
        ids = ",".join(str(i) for i in prompt(arguments))
        settings = [part for setting in arguments.set for part in ("--set", setting)]
        command = [arguments.mzcache, "run", "-m", arguments.model, "--tokens", ids, "-n", "1",
                   "-c", str(CONTEXT), "--json", *settings]
    else:
        command = [sys.executable, __file__, "-m", arguments.model, "--prompt-tokens",
                   str(arguments.prompt_tokens), "--threads", str(arguments.threads), "--venv",
                   arguments.venv, "--child", way]
    begin = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    end = time.monotonic()
    said = json.loads(done.stdout)
    if way == OURS:
        return (end - begin) * 1e3, said["load"]["first_token_ms"]
    return (said["end"] - begin) * 1e3, said["load_ms"]


def main():
    arguments = parse_arguments()
    enter(arguments.venv)
    if arguments.child:
        child(arguments)
    ways = list(load_ways())
    turns = [way for theirs in ways for way in (OURS, theirs)]
    for way in (OURS, *ways):
        start(arguments, way)
    seen = {way: [] for way in (OURS, *ways)}
    left = 0.0
    for number in range(arguments.rounds):
        for way in turns:
            print(f"round {number + 1} of {arguments.rounds}, {way}", file=sys.stderr)
            left = max(left, drop(arguments))
            seen[way].append(start(arguments, way))
    rows = []
    for way, times in seen.items():
        process, load = ([time[i] for time in times] for i in (0, 1))
        rows.append({"way": way, "process_ms": statistics.median(process),
                     "load_ms": statistics.median(load), "load_min_ms": min(load),
                     "load_max_ms": max(load), "runs": len(times)})
    if arguments.json:
        print(json.dumps({"rows": rows, "cached_percent_max": left}))
        return
    print(f"{os.path.basename(arguments.model)}, {arguments.prompt_tokens} tokens; at most "
          f"{left:.1f} % of the model were in the page cache")
    print(f"{'':22} {'from process ms':>16} {'from load ms':>13} {'range':>17} {'x ours':>7}")
    for row in rows:
        spread = f"{row['load_min_ms']:.0f} to {row['load_max_ms']:.0f}"
        print(f"{row['way']:22} {row['process_ms']:16.0f} {row['load_ms']:13.0f} {spread:>17} "
              f"{row['load_ms'] / rows[0]['load_ms']:7.2f}")


if __name__ == "__main__":
    main()
