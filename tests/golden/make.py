#!/usr/bin/env python3
"""Makes the tiny golden models and the logits expected of them.

    python3 -m venv venv && venv/bin/pip install gguf==0.19.0 llama-cpp-python==0.3.36
    venv/bin/python tests/golden/make.py [NAME ...]

For each model: models/NAME.gguf (seeded random weights) and models/NAME.logits.f32, float32
little-endian rows, one for each of `positions` in models/prompt.json, as llama.cpp computes them
from a copy whose tensors are dequantised to F32 exactly, with an F16 KV cache and without flash
attention. llama.cpp has no window in architecture llama: there the copy is of architecture
granite_swa, which computes the same (its scales 1, its attention sinks so low that they weigh
nothing). The tokenizer inside is a dummy: feed ids.
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

BASE = dict(architecture="llama", hidden=64, layers=2, heads=4, kv_heads=2, head_dim=16,
            feed_forward=128, base=10000.0, epsilon=1e-5, tied=True, factors=False, type=Type.F16,
            norms=True, post_norms=False, post_gain=1.0, head_norms=False, biases=False,
            keys={})
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
    "qwen2": dict(BASE, architecture="qwen2", biases=True, base=1000000.0, tied=False),
    "qwen3": dict(BASE, architecture="qwen3", head_norms=True, head_dim=32, base=1000000.0),
    "smollm3": dict(BASE, architecture="smollm3", layers=5, kv_heads=1, base=500000.0,
                    feed_forward=64),
    "rope-linear": dict(BASE, keys={"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}),
    "rope-yarn": dict(BASE, head_dim=32, keys={"rope.scaling.type": "yarn",
                                               "rope.scaling.factor": 4.0,
                                               "rope.scaling.original_context_length": 256}),
    "qwen3-yarn": dict(BASE, architecture="qwen3", head_norms=True, head_dim=32, layers=1,
                       keys={"rope.scaling.type": "yarn", "rope.scaling.factor": 8.0,
                             "rope.scaling.original_context_length": 128}),
    # A window that ends inside chunks, and one larger than a chunk.
    "llama-window": dict(BASE, layers=3, keys={"attention.sliding_window": 100}),
    "llama-window-wide": dict(BASE, keys={"attention.sliding_window": 300,
                                          "attention.sliding_window_pattern": [True, False]}),
    "exaone4": dict(BASE, architecture="exaone4", norms=False, post_norms=True, head_norms=True,
                    base=1000000.0, factors=True),
    # llama.cpp mixes sliding and global layers in models of 64 layers only. Each adds little, or
    # rounding would grow through so many of them.
    "exaone4-mixed": dict(BASE, architecture="exaone4", norms=False, post_norms=True,
                          post_gain=0.06, head_norms=True, hidden=32, layers=64, heads=2,
                          kv_heads=1, feed_forward=32, type=Type.Q8_0,
                          keys={"attention.sliding_window": 100,
                                "attention.sliding_window_pattern":
                                    [True, True, True, False] * 16}),
    # The residual stream of these is wide: √hidden times the embedding.
    "gemma2": dict(BASE, architecture="gemma2", post_norms=True, post_gain=3.0, head_dim=32,
                   layers=3,
                   keys={"attention.sliding_window": 100, "attn_logit_softcapping": 50.0,
                         "final_logit_softcapping": 30.0}),
    "gemma3": dict(BASE, architecture="gemma3", post_norms=True, post_gain=3.0, head_norms=True,
                   layers=7, kv_heads=1, head_dim=32, feed_forward=96, base=1000000.0,
                   keys={"attention.sliding_window": 100, "rope.scaling.type": "linear",
                         "rope.scaling.factor": 8.0}),
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

    def norm(size=hidden, low=0.7, high=1.3):
        return random.uniform(low, high, size).astype(np.float32)

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
        if spec["norms"]:
            out[prefix + "attn_norm.weight"] = (norm(), Type.F32)
        # Peaked attention: a wrong position shows.
        out[prefix + "attn_q.weight"] = (matrix(heads, hidden, 2.0), kind)
        out[prefix + "attn_k.weight"] = (matrix(kv_heads, hidden, 1.5), kind)
        out[prefix + "attn_v.weight"] = (matrix(kv_heads, hidden), kind)
        out[prefix + "attn_output.weight"] = (matrix(hidden, heads), kind)
        if spec["biases"]:
            for name, size in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
                out[prefix + f"attn_{name}.bias"] = (norm(size, -1.0, 1.0), Type.F32)
        if spec["head_norms"]:
            out[prefix + "attn_q_norm.weight"] = (norm(spec["head_dim"], 1.2, 2.2), Type.F32)
            out[prefix + "attn_k_norm.weight"] = (norm(spec["head_dim"], 1.2, 2.2), Type.F32)
        if spec["post_norms"]:
            gain = spec["post_gain"]
            out[prefix + "post_attention_norm.weight"] = (gain * norm(), Type.F32)
            out[prefix + "post_ffw_norm.weight"] = (gain * norm(), Type.F32)
        if spec["norms"]:
            out[prefix + "ffn_norm.weight"] = (norm(), Type.F32)
        out[prefix + "ffn_gate.weight"] = (matrix(feed_forward, hidden, 1.5), kind)
        out[prefix + "ffn_up.weight"] = (matrix(feed_forward, hidden, 1.5), kind)
        out[prefix + "ffn_down.weight"] = (matrix(hidden, feed_forward), kind)
    return out


def add_window_reference(writer, spec):
    """What granite_swa wants beside what a llama with a window has."""
    prefix = "granite_swa."
    writer.add_float32(prefix + "logit_scale", 1.0)
    window = spec["keys"]["attention.sliding_window"]
    pattern = spec["keys"].get("attention.sliding_window_pattern", [True] * spec["layers"])
    writer.add_uint32(prefix + "attention.sliding_window", window)
    writer.add_array(prefix + "attention.sliding_window_pattern", pattern)
    for layer in range(spec["layers"]):
        writer.add_tensor(f"blk.{layer}.attn_sinks.weight",
                          np.full(spec["heads"], -1e9, dtype=np.float32))


def add_keys(writer, architecture, keys):
    for key, value in keys.items():
        add = {str: writer.add_string, int: writer.add_uint32, float: writer.add_float32,
               list: writer.add_array}[type(value)]
        add(f"{architecture}.{key}", value)


def write(path, name, spec, contents, exact):
    """A GGUF file; with `exact` every tensor dequantised to F32."""
    windowed_llama = (spec["architecture"] == "llama" and
                      "attention.sliding_window" in spec["keys"])
    architecture = "granite_swa" if windowed_llama and exact else spec["architecture"]
    writer = gguf.GGUFWriter(str(path), architecture)
    if architecture == "granite_swa":
        add_window_reference(writer, spec)
    else:
        add_keys(writer, architecture, spec["keys"])
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
