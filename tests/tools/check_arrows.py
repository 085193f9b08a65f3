#!/usr/bin/env python3
"""Which file may include what: the arrows between the rooms, as docs/architecture.md draws them.

  actors   <- io, gpu, codec    they implement the ports that the actors own
  actors   <- engine            ports only; files named wiring* and runtime* also name io, gpu, codec
  engine   <- sim               without OpenCL and liburing
  mzcache  <- commands an embedder could write
"""
import os
import re
import sys
import unittest

ROOT = os.path.abspath(sys.argv.pop(1) if len(sys.argv) > 1 and os.path.isdir(sys.argv[1])
                       else os.path.join(os.path.dirname(__file__), "..", ".."))
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
ROOMS = {"actors", "io", "gpu", "codec", "engine", "sim"}

# What a room may include of the other rooms.
MAY_INCLUDE = {
    "actors": {"actors"},
    "io": {"actors", "io"},
    "gpu": {"actors", "gpu"},
    "codec": {"actors", "codec"},
    "engine": {"actors", "engine"},
    "sim": {"actors", "engine", "sim"},
}
WIRING = re.compile(r"^src/engine/(wiring|runtime)[^/]*$")

# A library and the only places that may know it.
ONLY_IN = [
    (re.compile(r"^liburing"), re.compile(r"^src/io/")),
    (re.compile(r"^CL/"), re.compile(r"^(src/gpu/|tests/gpu/)")),
    (re.compile(r"^(zstd|zdict|lz4)\.h$"), re.compile(r"^(src/codec/|tests/codec/|bench/codec/)")),
    (re.compile(r"^toml\+\+/"), re.compile(r"^src/engine/config")),
    (re.compile(r"^pcre2"), re.compile(r"^src/engine/")),
    (re.compile(r"^CLI/"), re.compile(r"^tools/command_line\.cpp$")),
    (re.compile(r"^asio"),
     re.compile(r"^(include/mzcache/|src/engine/(wiring|runtime)|tools/|examples/|tests/)")),
]

# Headers of an operating system or a processor: not in src/actors, but for the two files that make
# threads and see to it that they run, and not in the simulation.
PLATFORM = re.compile(r"^(sys/|linux/|asm/|arpa/|netinet/|mach/|windows\.h|unistd\.h|fcntl\.h|"
                      r"pthread\.h|sched\.h|poll\.h|dlfcn\.h|signal\.h|csignal|spawn\.h|"
                      r"immintrin\.h|x86intrin\.h|arm_neon\.h|semaphore\.h)")
THREADED = ("src/actors/threaded_dispatcher.cpp", "src/actors/prompt_thread.cpp")

# Commands whose source an embedder could have written, with what they share; and those that measure
# or build the inside and may look at it.
PUBLIC_TOOLS = re.compile(
    r"^tools/(commands/(run|chat|inspect|tokenize|logits|devices|profile|plan|eval(_(?!lossless)[a-z]+)?|command)\.(cpp|h)"
    r"|[a-z_]+\.(cpp|h))$")
ROOM_TOOLS = re.compile(r"^tools/(commands/(bench(_[a-z]+)?|machine_probe|eval_lossless|synth|simulate(_[a-z]+)?|trace)\.(cpp|h)|commands/ttft/[a-z_]+\.(cpp|h)|synth/.*)$")


def room_of(header):
    first = header.split("/", 1)[0]
    return first if "/" in header and first in ROOMS else None


def room_violations(path, header):
    match = re.match(r"^src/([a-z]+)/", path)
    target = room_of(header)
    if match and target:
        allowed = MAY_INCLUDE[match.group(1)]
        if WIRING.match(path):
            allowed = allowed | {"io", "gpu", "codec"}
        if target not in allowed:
            yield f"src/{match.group(1)} must not include {target}"
    if path.startswith("include/") and target:
        yield "a public header must not include a room"
    if path.startswith("examples/") and target:
        yield "an example must only include mzcache/"
    if path.startswith("tools/") and target:
        if PUBLIC_TOOLS.match(path):
            yield "this command must only include mzcache/"
        elif not ROOM_TOOLS.match(path):
            yield "not in the list of tools that may include rooms"


def violations(path, text):
    """What is wrong with the includes of one file, as 'path: header: why'."""
    found = []
    for _, header in INCLUDE.findall(text):
        whys = list(room_violations(path, header))
        for library, place in ONLY_IN:
            if library.match(header) and not place.match(path):
                whys.append("this library has its own place")
        if PLATFORM.match(header):
            if path.startswith("src/actors/") and path not in THREADED:
                whys.append("no platform header in src/actors")
            if path.startswith("src/sim/"):
                whys.append("no platform header in src/sim")
        found += [f"{path}: {header}: {why}" for why in whys]
    return found


def sources():
    for top in ("include", "src", "tools", "examples", "bench", "tests"):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in names:
                if name.endswith((".h", ".cpp", ".inl")):
                    path = os.path.join(folder, name)
                    yield os.path.relpath(path, ROOT).replace(os.sep, "/"), path


class Arrows(unittest.TestCase):
    def test_every_file_keeps_to_the_arrows(self):
        found = []
        count = 0
        for path, file in sources():
            count += 1
            with open(file, encoding="utf-8") as stream:
                found += violations(path, stream.read())
        self.assertEqual(found, [])
        self.assertGreater(count, 50)

    def test_a_broken_arrow_is_found(self):
        for path, line in [
            ("src/actors/allocator.cpp", '#include "engine/planner.h"'),
            ("src/actors/allocator.cpp", "#include <unistd.h>"),
            ("src/actors/allocator.h", "#include <sys/mman.h>"),
            ("src/engine/coordinator.cpp", '#include "io/storage.h"'),
            ("src/engine/residency.h", '#include "gpu/device.h"'),
            ("src/engine/planner.cpp", "#include <asio/post.hpp>"),
            ("src/io/storage.cpp", '#include "gpu/device.h"'),
            ("src/gpu/device.cpp", "#include <liburing.h>"),
            ("src/engine/wiring.cpp", "#include <CL/opencl.hpp>"),
            ("src/engine/gguf.cpp", "#  include <zstd.h>"),
            ("src/sim/sim_world.cpp", '#include "io/storage.h"'),
            ("tools/commands/run.cpp", '#include "engine/config_keys.h"'),
            ("tools/client.cpp", '#include "actors/ports.h"'),
            ("tools/other/new.cpp", '#include "actors/ports.h"'),
            ("examples/embed.cpp", '#include "actors/ports.h"'),
            ("include/mzcache/runtime.h", '#include "actors/ports.h"'),
        ]:
            self.assertEqual(len(violations(path, line)), 1, (path, line))

    def test_what_is_allowed_is_not_found(self):
        for path, line in [
            ("src/engine/wiring.cpp", '#include "io/storage.h"'),
            ("src/engine/runtime_impl.cpp", "#include <asio/post.hpp>"),
            (THREADED[0], "#include <pthread.h>"),
            ("src/io/uring_device.cpp", "#include <liburing.h>"),
            ("tools/commands/bench.cpp", '#include "actors/timeline.h"'),
            ("tools/commands/run.cpp", '#include "mzcache/runtime.h"'),
            ("src/sim/sim_world.h", '#include "engine/planner.h"'),
        ]:
            self.assertEqual(violations(path, line), [], (path, line))


if __name__ == "__main__":
    unittest.main(verbosity=2)
