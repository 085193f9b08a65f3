#!/usr/bin/env python3
"""Grammars, log-probabilities, stop strings and templates with the real model."""
import json
import math
import os
import tempfile
import unittest

from support import MODEL, mzcache, need_model, one_object

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "models")


class Sampling(unittest.TestCase):
    def turn(self, *flags):
        result = mzcache("run", "-m", MODEL, "--json", *flags)
        self.assertEqual(result.returncode, 0, result.stderr)
        return one_object(result.stdout)["turns"][-1]

    def tokenize(self, text, *flags):
        result = mzcache("tokenize", "-m", MODEL, "--json", "-p", text, *flags)
        return one_object(result.stdout)["tokens"]

    def test_json_answers_are_json(self):
        question = ["-p", "Write a JSON object about a person with a list of hobbies."]
        for flags in [["--temp", "0"], ["--temp", "1.2", "--seed", "5", "--top-k", "20"]]:
            with self.subTest(flags):
                turn = self.turn(*question, "-n", "120", "--grammar", "json", *flags)
                if turn["stop"] == "eos":
                    self.assertIsInstance(json.loads(turn["text"]), (dict, list))
                else:  # cut off: what is there begins an object or array
                    self.assertEqual(turn["stop"], "length")
                    self.assertIn(turn["text"][0], "{[")

    def test_a_grammar_from_a_file_decides_the_answer(self):
        grammar = r'''
            root   ::= "{\"city\": " string ", \"path\": " string ", \"in\": {\"eu\": " yes "}}"
            string ::= "\"" ([^"\\\n] | "\\" ["\\n]){1,12} "\""
            yes    ::= "true" | "false"'''
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "city.gbnf")
            with open(path, "w", encoding="utf-8") as file:
                file.write(grammar)
            turn = self.turn("-p", "The capital of France, and a path on Windows?", "-n", "80",
                             "--grammar", path)
        answer = json.loads(turn["text"])
        self.assertEqual(turn["stop"], "eos")
        self.assertEqual(list(answer), ["city", "path", "in"])
        self.assertIsInstance(answer["in"]["eu"], bool)

    def test_log_probabilities(self):
        turn = self.turn("-p", "What is the capital of France?", "-n", "8", "--logprobs", "3")
        self.assertEqual([one["token"] for one in turn["logprobs"]], turn["tokens"])
        text = ""
        for one in turn["logprobs"]:
            self.assertEqual(len(one["top"]), 3)
            likeliest = one["top"][0]
            self.assertEqual(likeliest["token"], one["token"])  # greedy
            self.assertAlmostEqual(likeliest["logprob"], one["logprob"], places=5)
            logprobs = [other["logprob"] for other in one["top"]]
            self.assertEqual(logprobs, sorted(logprobs, reverse=True))
            self.assertLess(sum(math.exp(value) for value in logprobs), 1.0001)
            text += one["text"]
        self.assertEqual(text.replace("<|im_end|>", ""), turn["text"])
        self.assertNotIn("logprobs", self.turn("-p", "Hi", "-n", "2"))
        plain = mzcache("run", "-m", MODEL, "-p", "What is the capital of France?", "-n", "4",
                        "--logprobs", "1")
        self.assertEqual(len(plain.stdout.splitlines()), 5)  # the answer, and a line per token

    def test_stop_strings_are_never_shown_even_half(self):
        question = ["-p", "Name the capital of France.", "-n", "20"]
        whole = self.turn(*question)["text"]
        self.assertIn("France is Paris", whole)
        turn = self.turn(*question, "--stop", "nce is Par")
        self.assertEqual(turn["stop"], "stop")
        self.assertEqual(turn["text"], whole[:whole.index("nce is Par")])
        streamed = mzcache("run", "-m", MODEL, *question, "--stop", "nce is Par")
        self.assertEqual(streamed.stdout, turn["text"] + "\n")

    def test_what_users_write_is_no_control_token(self):
        end = self.tokenize("<|im_end|>")
        self.assertEqual(len(end), 1)
        plain = self.turn("-p", "Hi there", "-n", "1")["prompt_tokens"]
        tricky = self.turn("-p", "Hi there<|im_end|>", "-n", "1")["prompt_tokens"]
        self.assertEqual(tricky - plain, len(self.tokenize("<|im_end|>", "--no-special")))

    def test_templates_by_name(self):
        self.assertIn("raw", mzcache("run", "-m", MODEL, "-p", "x", "--chat-template",
                                     "nosuch").stderr)
        raw = self.turn("-p", "Hi there", "-n", "1", "--chat-template", "raw")
        self.assertEqual(raw["prompt_tokens"], len(self.tokenize("Hi there")))
        off = mzcache("run", "-m", MODEL, "-p", "x", "--thinking", "off")
        self.assertEqual(off.returncode, 2)
        self.assertIn("no such switch", off.stderr)

    def test_a_model_without_a_template_says_so(self):
        result = mzcache("run", "-m", os.path.join(GOLDEN, "llama-gqa.gguf"), "-p", "x")
        self.assertIn("no chat template", result.stderr)
        result = mzcache("run", "-m", os.path.join(GOLDEN, "llama-gqa.gguf"), "--tokens", "1,2",
                         "-n", "1")
        self.assertNotIn("template", result.stderr)


if __name__ == "__main__":
    need_model()
    unittest.main()
