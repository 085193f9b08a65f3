#!/usr/bin/env python3
"""Makes the tiny golden models and the logits expected of them.

    python3 -m venv venv && venv/bin/pip install gguf==0.19.0 llama-cpp-python==0.3.36
    venv/bin/python tests/golden/make.py [NAME ...]

For each model: models/NAME.gguf (seeded random weights) and models/NAME.logits.f32, float32
little-endian rows, one for each of `positions` in models/prompt.json, as llama.cpp computes them
from a copy whose tensors are dequantised to F32 exactly, with an F16 KV cache and without flash
attention. The tokenizer inside is a dummy: feed ids.
"""

import ctypes
import json
import pathlib
import sys
import tempfile

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

FOLDER = pathlib.Path(__file__).resolve().parent / "models"
VOCABULARY = 320
CONTEXT = 2048
TOKENS = 600
# Both sides of every chunk border, of the first tokens, and the end.
POSITIONS = [0, 1, 7, 31, 100, 254, 255, 256, 257, 511, 512, 599]

BASE = dict(hidden=64, layers=2, heads=4, kv_heads=2, head_dim=16, feed_forward=128,
            base=10000.0, epsilon=1e-5, tied=True, factors=False, type=Type.F16)
# K-quants need rows of whole 256-value blocks.
WIDE = dict(BASE, hidden=256, layers=1, heads=4, kv_heads=1, head_dim=64, feed_forward=256)
MODELS = {
    "llama-gqa": dict(BASE, layers=3, head_dim=32),  # key_length is not hidden / heads
    "llama-mha-untied": dict(BASE, kv_heads=4, feed_forward=96, tied=False),
    "llama3-rope-scaled": dict(BASE, kv_heads=1, head_dim=64, feed_forward=96, base=500000.0,
                               epsilon=1e-6, factors=True),
    "type-f32": dict(BASE, type=Type.F32),
    "type-f16": dict(BASE),
    "type-bf16": dict(BASE, type=Type.BF16),
    "type-q8_0": dict(BASE, type=Type.Q8_0),
    "type-q4_0": dict(BASE, type=Type.Q4_0),
    "type-q4_1": dict(BASE, type=Type.Q4_1),
    "type-q5_0": dict(BASE, type=Type.Q5_0),
    "type-q5_1": dict(BASE, type=Type.Q5_1),
    "type-q4_k": dict(WIDE, type=Type.Q4_K),
    "type-q5_k": dict(WIDE, type=Type.Q5_K),
    "type-q6_k": dict(WIDE, type=Type.Q6_K),
}


def ggml():
    import llama_cpp

    path = next(pathlib.Path(llama_cpp.__file__).parent.glob("lib/libggml-base.so*"))
    library = ctypes.CDLL(str(path))
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    library.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p,
                                            ctypes.c_int64, ctypes.c_int64, ctypes.c_int64,
                                            ctypes.c_void_p]
    return library


def quantise(values, kind):
    """Rows of `values` as the bytes of tensor type `kind`."""
    if kind in (Type.Q4_K, Type.Q5_K, Type.Q6_K):  # the gguf package only reads these
        rows, columns = values.shape
        block, size = gguf.GGML_QUANT_SIZES[kind]
        out = np.zeros((rows, columns // block * size), dtype=np.uint8)
        values = np.ascontiguousarray(values, dtype=np.float32)
        written = ggml().ggml_quantize_chunk(int(kind), values.ctypes.data, out.ctypes.data, 0,
                                             rows, columns, None)
        assert written == out.nbytes
        return out
    return gguf.quants.quantize(values, kind)


def tensors(spec, random):
    """Name -> (values, type). Scaled so that logits have a standard deviation of about 4."""
    hidden, feed_forward = spec["hidden"], spec["feed_forward"]
    heads = spec["heads"] * spec["head_dim"]
    kv_heads = spec["kv_heads"] * spec["head_dim"]

    def matrix(rows, columns, gain=1.0):
        return random.normal(0, gain / np.sqrt(columns), (rows, columns)).astype(np.float32)

    def norm():
        return random.uniform(0.7, 1.3, hidden).astype(np.float32)

    kind = spec["type"]
    out = {"token_embd.weight": (matrix(VOCABULARY, hidden, 4.0), kind),
           "output_norm.weight": (norm(), Type.F32)}
    if not spec["tied"]:
        out["output.weight"] = (matrix(VOCABULARY, hidden, 4.0), kind)
    if spec["factors"]:
        ramp = np.linspace(0, 1, spec["head_dim"] // 2)
        out["rope_freqs.weight"] = ((1 + 7 * ramp**2).astype(np.float32), Type.F32)
    for layer in range(spec["layers"]):
        prefix = f"blk.{layer}."
        out[prefix + "attn_norm.weight"] = (norm(), Type.F32)
        # Peaked attention: a wrong position shows.
        out[prefix + "attn_q.weight"] = (matrix(heads, hidden, 2.0), kind)
        out[prefix + "attn_k.weight"] = (matrix(kv_heads, hidden, 1.5), kind)
        out[prefix + "attn_v.weight"] = (matrix(kv_heads, hidden), kind)
        out[prefix + "attn_output.weight"] = (matrix(hidden, heads), kind)
        out[prefix + "ffn_norm.weight"] = (norm(), Type.F32)
        out[prefix + "ffn_gate.weight"] = (matrix(feed_forward, hidden, 1.5), kind)
        out[prefix + "ffn_up.weight"] = (matrix(feed_forward, hidden, 1.5), kind)
        out[prefix + "ffn_down.weight"] = (matrix(hidden, feed_forward), kind)
    return out


def write(path, name, spec, contents, exact):
    """A GGUF file; with `exact` every tensor dequantised to F32."""
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name(name)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(spec["hidden"])
    writer.add_block_count(spec["layers"])
    writer.add_feed_forward_length(spec["feed_forward"])
    writer.add_head_count(spec["heads"])
    writer.add_head_count_kv(spec["kv_heads"])
    writer.add_key_length(spec["head_dim"])
    writer.add_value_length(spec["head_dim"])
    writer.add_layer_norm_rms_eps(spec["epsilon"])
    writer.add_rope_freq_base(spec["base"])
    writer.add_rope_dimension_count(spec["head_dim"])
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([f"t{i}" for i in range(VOCABULARY)])
    writer.add_token_types([gguf.TokenType.NORMAL] * VOCABULARY)
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_add_bos_token(False)
    for tensor_name, (data, kind) in contents.items():
        if exact:
            writer.add_tensor(tensor_name, gguf.quants.dequantize(data, kind).astype(np.float32))
        elif kind in (Type.F32, Type.F16):
            writer.add_tensor(tensor_name, data)
        else:
            writer.add_tensor(tensor_name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def logits(path, tokens, positions):
    import llama_cpp

    model = llama_cpp.Llama(model_path=str(path), n_ctx=1024, n_batch=1024, n_ubatch=1024,
                            n_threads=1, n_threads_batch=1, logits_all=True, flash_attn=False,
                            n_gpu_layers=0, verbose=False)
    model.eval(tokens)
    return np.array(model.scores[positions], dtype=np.float32)


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(7)
    tokens = [int(token) for token in random.integers(0, VOCABULARY, TOKENS)]
    with open(FOLDER / "prompt.json", "w") as file:
        json.dump({"tokens": tokens, "positions": POSITIONS, "vocabulary": VOCABULARY}, file)
        file.write("\n")
    for seed, (name, spec) in enumerate(MODELS.items()):
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        values = tensors(spec, np.random.default_rng(1000 + seed))
        contents = {key: (quantise(data, kind), kind) for key, (data, kind) in values.items()}
        path = FOLDER / f"{name}.gguf"
        write(path, name, spec, contents, exact=False)
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / "exact.gguf"
            write(copy, name, spec, contents, exact=True)
            rows = logits(copy, tokens, POSITIONS)
        assert np.isfinite(rows).all()
        rows.astype("<f4").tofile(FOLDER / f"{name}.logits.f32")
        print(f"{name}: {path.stat().st_size} bytes, logits of standard deviation {rows.std():.2f}")


if __name__ == "__main__":
    main()
