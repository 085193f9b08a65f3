#!/usr/bin/env python3
"""Makes tokenizers/splitters.json and tokenizers/scores.json: small vocabularies, random texts, and
the ids llama.cpp gives for them.

    python3 -m venv venv && venv/bin/pip install gguf==0.19.0 llama-cpp-python==0.3.36
    venv/bin/python tests/golden/make_tokenizers.py [CASES]

splitters.json: one byte-level vocabulary (`tokens`, `merges`; "<|end|>" is control, "<tool>" user
defined), and for each name of a splitter `[{text, ids}]`. scores.json: vocabularies of the
SentencePiece kind, with and without the space prefix, byte fallback and characters of their own.
All without BOS, special tokens not parsed.
"""

import ctypes
import json
import pathlib
import random
import sys
import tempfile

import gguf
import llama_cpp

FOLDER = pathlib.Path(__file__).resolve().parent / "tokenizers"
SPLITTERS = ["default", "gpt-2", "exaone4", "smollm", "qwen2", "llama-bpe"]
CASES = int(sys.argv[1]) if len(sys.argv) > 1 else 120
TEXT = """The quick brown fox jumps over the lazy dog, and then it doesn't. We've 1234567 reasons: 12.5% of
$100 (or more!) is -- well -- "enough"; I'll say so.\n\n  def f(x):\n    return x ** 2  # squares\n
caf\u00e9 na\u00efve \u0441\u043b\u043e\u0432\u043e \u4e16\u754c\u4f60\u597d \U0001F600\U0001F601 ...   ''' \u00e9\u00e9 can't 'S 'LL a\u00a0b\t\tc\r\nd
the theme of the other thing is that there they then thaw 000 111 2222 \u0663\u0664\u0665 \u00bd"""
OFTEN = (" " * 6 + "\t\n\r\u00a0\u2003\u3000\u0085''stdmrevlSTLL0123456789\u0663\u00bd.,!?$+<=>^~|`-_()\"<>aAzZ"
         "\u00e9\u4e16\uac00\U0001F600\u200d\u0301\u0430")


def byte_letters():
    """GPT-2's alphabet: byte -> letter."""
    letters, other = {}, 0x100
    for byte in range(256):
        if 0x21 <= byte <= 0x7E or (byte >= 0xA1 and byte != 0xAD):
            letters[byte] = chr(byte)
        else:
            letters[byte] = chr(other)
            other += 1
    return letters


def learn(symbols, count):
    """The `count` most frequent merges, in order, as pairs."""
    merges = []
    for _ in range(count):
        pairs = {}
        for pair in zip(symbols, symbols[1:]):
            pairs[pair] = pairs.get(pair, 0) + 1
        best = max(sorted(pairs), key=lambda pair: pairs[pair])
        merges.append(best)
        merged, at = [], 0
        while at < len(symbols):
            if tuple(symbols[at:at + 2]) == best:
                merged.append(best[0] + best[1])
                at += 2
            else:
                merged.append(symbols[at])
                at += 1
        symbols = merged
    return merges


def random_text(generator):
    text = ""
    for _ in range(generator.randrange(28)):
        if generator.random() < 0.12:
            code = generator.randrange(0x3000 if generator.random() < 0.7 else 0x20000)
            # Not what Unicode versions disagree about, and not what JSON cannot say.
            text += chr(code) if 0xD800 > code >= 0x20 and chr(code).isprintable() else "x"
        elif generator.random() < 0.15:
            text += generator.choice(TEXT.split(" "))
        else:
            text += generator.choice(OFTEN)
    return text


class Peer:
    """llama.cpp over a vocabulary that is written to a file first."""

    def __init__(self, add_keys):
        self.file = tempfile.NamedTemporaryFile(suffix=".gguf")
        writer = gguf.GGUFWriter(self.file.name, "llama")
        add_keys(writer)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        parameters = llama_cpp.llama_model_default_params()
        parameters.vocab_only = True
        self.model = llama_cpp.llama_model_load_from_file(self.file.name.encode(), parameters)
        assert self.model
        self.vocabulary = llama_cpp.llama_model_get_vocab(self.model)

    def ids(self, text):
        data = text.encode()
        room = len(data) + 8
        out = (llama_cpp.llama_token * room)()
        count = llama_cpp.llama_tokenize(self.vocabulary, data, len(data), out, room, False, False)
        assert count >= 0
        return list(out[:count])


def splitters():
    letters = byte_letters()
    merges = learn([letters[byte] for byte in TEXT.encode()], 140)
    tokens = list(letters.values())
    for left, right in merges:
        if left + right not in tokens:
            tokens.append(left + right)
    kinds = [1] * len(tokens) + [3, 4]
    tokens += ["<|end|>", "<tool>"]
    out = {"tokens": tokens, "kinds": kinds, "merges": [f"{a} {b}" for a, b in merges],
           "splitters": {}}
    for name in SPLITTERS:
        def keys(writer):
            writer.add_tokenizer_model("gpt2")
            writer.add_tokenizer_pre(name)
            writer.add_token_list(tokens)
            writer.add_token_types(kinds)
            writer.add_token_merges(out["merges"])
            writer.add_bos_token_id(0)
            writer.add_eos_token_id(0)

        peer = Peer(keys)
        generator = random.Random(f"splitters {name}")
        texts = [TEXT, "", "a <tool> b<|end|>"] + [random_text(generator) for _ in range(CASES)]
        out["splitters"][name] = [{"text": text, "ids": peer.ids(text)} for text in texts]
    return out


def scores():
    # Spaces are merged over: some tokens have one inside or at the end.
    merges = learn(list(TEXT.replace(" ", "\u2581")), 120)
    tokens, kinds, values = ["<unk>", "<s>", "</s>"], [2, 3, 3], [0.0, 0.0, 0.0]
    for byte in range(256):
        tokens.append(f"<0x{byte:02X}>")
        kinds.append(6)
        values.append(0.0)
    for rank, (left, right) in enumerate(merges):
        tokens.append(left + right)
        kinds.append(1)
        values.append(float(-(rank // 3)))  # every score three times: ties go to the left
    # All characters but the newline (which falls back to its byte) and one that only occurs inside
    # a token.
    inside = merges[-1][0][0] if len(merges[-1][0]) == 1 else None
    for character in sorted(set(TEXT.replace(" ", "\u2581")) - {"\n", inside}):
        if character not in tokens:
            tokens.append(character)
            kinds.append(1)
            values.append(-1000.0)
    tokens += ["<tool>", "  "]
    kinds += [4, 4]
    values += [-1000.0, -1000.0]
    out = {"tokens": tokens, "kinds": kinds, "scores": values, "prefix": {}}
    for prefix in (True, False):
        def keys(writer):
            writer.add_tokenizer_model("llama")
            writer.add_token_list(tokens)
            writer.add_token_types(kinds)
            writer.add_token_scores(values)
            writer.add_bos_token_id(1)
            writer.add_eos_token_id(2)
            writer.add_unk_token_id(0)
            writer.add_add_space_prefix(prefix)

        peer = Peer(keys)
        generator = random.Random(f"scores {prefix}")
        texts = [TEXT, "", " ", "a <tool> b</s>", "\u2581x \u2581"]
        texts += [random_text(generator) for _ in range(CASES)]
        out["prefix"][str(prefix).lower()] = [{"text": text, "ids": peer.ids(text)} for text in texts]
    return out


def main():
    @llama_cpp.llama_log_callback
    def quiet(level, text, data):
        pass

    llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
    for name, made in (("splitters", splitters()), ("scores", scores())):
        path = FOLDER / f"{name}.json"
        path.write_text(json.dumps(made, ensure_ascii=True, separators=(",", ":")) + "\n")
        print(path, path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
