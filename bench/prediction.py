#!/usr/bin/env python3
"""How well `mzcache simulate --machine this` predicts `mzcache bench ttft` on this machine.

    cmake --preset release && cmake --build --preset release
    bench/prediction.py -m MODEL [--context 2k,8k] [--rounds 3] [--save FILE]
    bench/prediction.py MEASURED.json PREDICTED.json

Each round simulates, then measures every row once, so that both see the machine in the same state (a
virtual machine's storage may differ by a third from one quarter of an hour to the next); the medians
of the rounds are compared. Two files, as `bench ttft --json` and `simulate --json` print them, are
compared as they are. Printed for each row: what was measured and its range, what was predicted, and
predicted over measured; then how many rows are within 20 %, and the worst. Always exits 0 where there
were rows to compare: the figures are for people.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
POLICIES = "mzcache,partial-offload,no-overlap,storage-only,memory-only"
WITHIN = 0.20


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help="MEASURED PREDICTED")
    parser.add_argument("-m", "--model")
    parser.add_argument("--context", default="2k,8k")
    parser.add_argument("--remaining", default="75,50,25,0")
    parser.add_argument("--policy", default=POLICIES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], help="passed on to mzcache")
    parser.add_argument("--save", help="all rounds, as JSON")
    parser.add_argument("--under", default="", help="a command that each run is started with")
    parser.add_argument("--mzcache", default=str(ROOT / "build/release/bin/mzcache"))
    arguments = parser.parse_args()
    if len(arguments.files) not in (0, 2) or (not arguments.files and not arguments.model):
        parser.error("give two files, or -m MODEL")
    return arguments


def run(arguments, *command):
    settings = [part for setting in arguments.set for part in ("--set", setting)]
    line = [*arguments.under.split(), arguments.mzcache, *command, "--json", *settings]
    return json.loads(subprocess.run(line, check=True, stdout=subprocess.PIPE).stdout)


def measure_rounds(arguments):
    """Pairs of what was measured and what was predicted just before."""
    rounds = []
    for number in range(arguments.rounds):
        for context in arguments.context.split(","):
            print(f"round {number + 1} of {arguments.rounds}, {context}", file=sys.stderr)
            rows = ["-m", arguments.model, "--context", context, "--remaining",
                    arguments.remaining, "--policy", arguments.policy]
            predicted = run(arguments, "simulate", "--machine", "this", *rows)
            rounds.append((run(arguments, "bench", "ttft", *rows, "--repeat", "1"), predicted))
    return rounds


def key(row):
    return row["context_tokens"], row["asked_percent"], row["policy"]


def by_row(results):
    rows = {}
    for result in results:
        for row in result["rows"]:
            if row["reachable"]:
                rows.setdefault(key(row), []).append(row)
    return rows


def compare(rounds):
    measured = by_row(result for result, _ in rounds)
    predicted = by_row(result for _, result in rounds)
    lines = []
    for row, seen in measured.items():
        if row not in predicted:
            continue
        ttft = statistics.median(r["ttft_ms"] for r in seen)
        said = statistics.median(r["ttft_ms"] for r in predicted[row])
        lines.append((row, ttft, min(r.get("ttft_min_ms", r["ttft_ms"]) for r in seen),
                      max(r.get("ttft_max_ms", r["ttft_ms"]) for r in seen), said, said / ttft))
    return lines


def main():
    arguments = parse_arguments()
    if arguments.files:
        rounds = [tuple(json.loads(pathlib.Path(file).read_text()) for file in arguments.files)]
    else:
        rounds = measure_rounds(arguments)
    if arguments.save:
        pathlib.Path(arguments.save).write_text(json.dumps(rounds))
    lines = compare(rounds)
    if not lines:
        sys.exit("prediction: no row was both measured and predicted")
    print("| context | left % | policy | measured ms (range) | predicted ms | ratio |")
    print("| ---: | ---: | --- | ---: | ---: | ---: |")
    for (context, percent, policy), ttft, least, most, said, ratio in lines:
        print(f"| {context} | {percent:.0f} | {policy} | {ttft:.0f} ({least:.0f} to {most:.0f}) | "
              f"{said:.0f} | {ratio:.2f} |")
    close = sum(abs(line[-1] - 1) <= WITHIN for line in lines)
    worst = max(lines, key=lambda line: abs(line[-1] - 1))
    print(f"\n{close} of {len(lines)} rows within {100 * WITHIN:.0f} % "
          f"({100 * close / len(lines):.0f} %); the worst is {worst[-1]:.2f} ({worst[0][2]}, "
          f"{worst[0][0]} tokens, {worst[0][1]:.0f} % left)")


if __name__ == "__main__":
    main()
