#!/usr/bin/env python3
"""Compares a model's answers with llama.cpp's: token ids, next-token distributions, first choices.

    cmake --preset release && cmake --build --preset release
    bench/peer_check.py -m MODEL [-f TEXT] [--positions N] [--only own|f32]

Both are given the model's own tokens of the text, in two parts, one after the other:

  own   llama.cpp computes the file itself. It quantises activations where weights are quantised, so
        first choices agree only mostly: 96 % are asked for.
  f32   it computes a copy of the file with every tensor dequantised to F32. Then every position
        where the first choices differ must be a close call, with less than 0.05 between the peer's
        first two.

Exit status 1 where token ids differ or one of this does not hold. On first use a virtual environment
is made (--venv, shared by the scripts beside this one) and llama-cpp-python built in it, which takes
some minutes; later calls use it as it is.
"""

import argparse
import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile

import peer_environment

TEXT = "/usr/share/common-licenses/GPL-3"
TOP1_PERCENT_MIN = 96.0
CLOSE_CALL = 0.05
ROWS_AT_ONCE = 64
PARTS = {"own": "the file", "f32": "F32 copy"}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-m", "--model", required=True, help="GGUF file")
    parser.add_argument("-f", "--file", default=TEXT, help=f"the text (default: {TEXT})")
    parser.add_argument("--positions", type=int, default=1024, help="tokens compared (1024)")
    parser.add_argument("--only", choices=list(PARTS), help="one of the two parts (default: both)")
    parser.add_argument("--mzcache",
                        default=str(peer_environment.ROOT / "build/release/bin/mzcache"))
    parser.add_argument("--venv", default=peer_environment.FOLDER)
    parser.add_argument("--folder", help="for the copy and the logits (default: a temporary one)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    return parser.parse_args()


def dequantise(model, copy):
    """The same model with every tensor in F32."""
    import gguf
    import numpy as np

    reader = gguf.GGUFReader(model)
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(str(copy), architecture)
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        element = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), kind, sub_type=element)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        shape = [int(size) for size in reversed(tensor.shape)]
        writer.add_tensor(tensor.name, values.reshape(shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def our_tokens(arguments):
    out = subprocess.run([arguments.mzcache, "tokenize", "-m", arguments.model, "-f",
                          arguments.file, "--json"], check=True, stdout=subprocess.PIPE)
    return json.loads(out.stdout)["tokens"]


def our_logits(arguments, tokens, folder):
    import numpy as np

    ids, rows = folder / "ids.json", folder / "rows.f32"
    ids.write_text(json.dumps({"tokens": tokens}), encoding="utf-8")
    subprocess.run([arguments.mzcache, "logits", "-m", arguments.model, "--tokens", f"@{ids}",
                    "--positions", ",".join(str(i) for i in range(len(tokens))), "--batch", "256",
                    "--set", "device.activations=float", "-o", str(rows)], check=True,
                   stdout=subprocess.DEVNULL)
    return np.memmap(rows, dtype="<f4", mode="r").reshape(len(tokens), -1)


def open_peer(path, context):
    import llama_cpp

    return llama_cpp.Llama(model_path=str(path), n_ctx=context, n_batch=512, n_ubatch=512,
                           logits_all=True, n_gpu_layers=0, flash_attn=False, verbose=False)


def compare(ours, peers):
    """KL of ours from the peer's, and the peer's gap where first choices differ, by position."""
    import numpy as np

    divergence, gaps = [], []
    for begin in range(0, len(ours), ROWS_AT_ONCE):
        mine = np.asarray(ours[begin:begin + ROWS_AT_ONCE], dtype=np.float64)
        theirs = np.asarray(peers[begin:begin + ROWS_AT_ONCE], dtype=np.float64)
        logs = [rows - rows.max(axis=1, keepdims=True) for rows in (mine, theirs)]
        logs = [rows - np.log(np.exp(rows).sum(axis=1, keepdims=True)) for rows in logs]
        divergence += list((np.exp(logs[1]) * (logs[1] - logs[0])).sum(axis=1))
        first_two = np.sort(np.partition(theirs, -2, axis=1)[:, -2:], axis=1)
        differs = mine.argmax(axis=1) != theirs.argmax(axis=1)
        gaps += [float(high - low) for (low, high), other in zip(first_two, differs) if other]
    return np.array(divergence), gaps


def check(arguments, part, all_tokens, rows, folder):
    import numpy as np

    peer_file = arguments.model
    if part == "f32":
        peer_file = folder / "dequantised.gguf"
        dequantise(arguments.model, peer_file)
    peer = open_peer(peer_file, arguments.positions)
    text = pathlib.Path(arguments.file).read_bytes()
    tokens_equal = all_tokens == peer.tokenize(text, add_bos=True, special=True)
    tokens = all_tokens[:arguments.positions]
    peer.eval(tokens)
    divergence, gaps = compare(rows, peer.scores[:len(tokens)])
    top1 = 100.0 * (1 - len(gaps) / len(tokens))
    far = sorted((gap for gap in gaps if gap >= CLOSE_CALL), reverse=True)
    good = tokens_equal and (not far if part == "f32" else top1 >= TOP1_PERCENT_MIN)
    return {"peer": PARTS[part], "tokens_equal": tokens_equal, "positions": len(tokens),
            "top1_percent": round(top1, 2), "kl": float(divergence.mean()),
            "kl_p99": float(np.quantile(divergence, 0.99)), "disagreements": len(gaps),
            "gap_max": round(max(gaps, default=0.0), 4),
            "disagreements_beyond_a_close_call": len(far), "good": good}


def main():
    arguments = parse_arguments()
    peer_environment.enter(arguments.venv)
    reports = {}
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(
            stack.enter_context(tempfile.TemporaryDirectory(dir=arguments.folder)))
        tokens = our_tokens(arguments)
        rows = our_logits(arguments, tokens[:arguments.positions], folder)
        for part in [arguments.only] if arguments.only else PARTS:
            reports[part] = check(arguments, part, tokens, rows, folder)
            if not arguments.json:
                for name, value in reports[part].items():
                    print(f"{name:34} {value}")
                print(flush=True)
    good = all(report["good"] for report in reports.values())
    if arguments.json:
        print(json.dumps({"model": arguments.model, "parts": reports, "good": good}))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
