#!/usr/bin/env python3
"""The README shows what is compiled: its example is the core of examples/embed.cpp, at most 15 lines of
code, and the files it names are there."""
import os
import re
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


class Readme(unittest.TestCase):
    def test_the_example_is_the_compiled_one(self):
        inside = read("examples/embed.cpp").split("begins here.\n")[1].split("  // And ends here.")[0]
        core = "".join(line[2:] if line.startswith("  ") else line
                       for line in inside.splitlines(keepends=True))
        self.assertIn("```cpp\n" + core + "```", read("README.md"))
        code = [line for line in core.splitlines()
                if line.strip() and not line.strip().startswith("//")]
        self.assertLessEqual(len(code), 15)

    def test_linked_files_are_there(self):
        prose = re.sub(r"```.*?```", "", read("README.md"), flags=re.S)
        links = re.findall(r"\]\((?!https?:)([^)#]+)", prose)
        self.assertGreater(len(links), 3)
        for link in links:
            self.assertTrue(os.path.exists(os.path.join(ROOT, link)), link)

    def test_what_the_scripts_are_called(self):
        for script in ["tools/demo.sh", "tools/test.sh"]:
            self.assertIn(script, read("README.md"))
            self.assertTrue(os.access(os.path.join(ROOT, script), os.X_OK))


if __name__ == "__main__":
    unittest.main(verbosity=2)
