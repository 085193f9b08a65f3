#!/usr/bin/env python3
"""Loads every synthetic model into llama.cpp and evaluates a few tokens.

    cmake --preset release && cmake --build --preset release
    bench/peer_synth.py [--arch NAME ...] [--type NAME ...] [--folder DIR]

Shows that what `mzcache synth` writes is valid to somebody else's reader: shapes, metadata, tensor
types, tokenizer. On first use it makes a virtual environment (--venv) and builds llama-cpp-python in
it, which takes some minutes. By default all architectures as q4_0, and all types of the smallest one.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import peer_environment

ARCHS = ["qwen3-0.6b", "qwen3-1.7b", "exaone4-1.2b", "llama3.2-1b", "gemma2-2b", "gemma3-270m",
         "smollm2-135m"]
TYPES = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1"]
SMALLEST = "smollm2-135m"
TEXT = "the quick brown fox, it costs 12 \u20ac\nand  two spaces \U0001F98A"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mzcache",
                        default=str(peer_environment.ROOT / "build/release/bin/mzcache"))
    parser.add_argument("--venv", default=peer_environment.FOLDER)
    parser.add_argument("--folder", help="where the models are written (default: a temporary one)")
    parser.add_argument("--arch", action="append", choices=ARCHS)
    parser.add_argument("--type", action="append", choices=TYPES)
    return parser.parse_args()


def check(path):
    """What llama.cpp makes of the file; raises where something is wrong."""
    import gguf
    import llama_cpp
    import numpy as np

    reader = gguf.GGUFReader(str(path))
    end = max(int(tensor.data_offset) + int(tensor.n_bytes) for tensor in reader.tensors)
    assert end <= path.stat().st_size, "a tensor ends past the file"
    model = llama_cpp.Llama(model_path=str(path), n_ctx=256, n_batch=64, logits_all=True,
                            n_gpu_layers=0, verbose=False)
    tokens = model.tokenize(TEXT.encode(), add_bos=False, special=False)
    assert model.detokenize(tokens).decode().lstrip() == TEXT, "the tokenizer does not round-trip"
    specials = sum(model.tokenize(piece.encode(), add_bos=False, special=True) != [token]
                   for token, piece in special_tokens(reader))
    assert specials == 0, "special tokens are not recognised"
    model.eval(tokens)
    logits = np.array(model.scores[:len(tokens)])
    assert np.isfinite(logits).all(), "logits are not finite"
    deviation = float(logits.std(axis=1).mean())
    assert 0.1 < deviation < 20, f"logits of standard deviation {deviation}"
    greedy = []
    for _ in range(4):
        greedy.append(int(np.argmax(model.scores[model.n_tokens - 1])))
        model.eval(greedy[-1:])
    return {"tokens": len(tokens), "logits_deviation": round(deviation, 2), "greedy": greedy}


def special_tokens(reader):
    types = reader.fields["tokenizer.ggml.token_type"].contents()
    texts = reader.fields["tokenizer.ggml.tokens"].contents()
    return [(i, texts[i]) for i, kind in enumerate(types) if kind == 3]


def main():
    arguments = parse_arguments()
    peer_environment.enter(arguments.venv)
    if arguments.arch or arguments.type:
        pairs = [(arch, kind) for arch in arguments.arch or ARCHS
                 for kind in arguments.type or ["q4_0"]]
    else:
        pairs = [(arch, "q4_0") for arch in ARCHS]
        pairs += [(SMALLEST, kind) for kind in TYPES if kind != "q4_0"]
    failures = 0
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for arch, kind in pairs:
            path = pathlib.Path(folder) / f"{arch}-{kind}.gguf"
            start = time.monotonic()
            subprocess.run([arguments.mzcache, "synth", "--arch", arch, "--type", kind, "-o",
                            str(path)], check=True, stdout=subprocess.DEVNULL)
            row = {"arch": arch, "type": kind, "bytes": path.stat().st_size,
                   "synth_s": round(time.monotonic() - start, 2)}
            try:
                row.update(check(path))
            except (AssertionError, RuntimeError, ValueError) as error:
                failures += 1
                row["error"] = str(error)
            print(json.dumps(row), flush=True)
            path.unlink()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
