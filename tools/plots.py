#!/usr/bin/env python3
"""Draws the paper's figures 4, 9, 10, 11 and 12 from what `mzcache bench ttft --json` printed.

    tools/plots.py ROWS.json [ROWS.json ...] -o FOLDER [--name NAME]

Several files count as one. A figure whose rows are missing is left out, and said so. Times are medians
in milliseconds. Needs matplotlib (apt-get install python3-matplotlib).
"""
import argparse
import json
import os
import sys

OVERLAPS = [("no-overlap", "none"), ("allocation-reload", "AR"), ("reload-prefill", "RP"),
            ("mzcache", "ARP")]
ORDERS = [("forward-out", "forward-out"), ("random-out", "random-out"), ("mzcache", "backward-out")]
COLOURS = {"allocate": "#9aa0a6", "read": "#4c78a8", "decode": "#f58518", "prefill": "#54a24b"}


def load(files):
    """The rows of all files that could be reached."""
    rows = []
    for file in files:
        with open(file, encoding="utf-8") as stream:
            rows += json.load(stream)["rows"]
    return [row for row in rows if row["reachable"]]


def pick(rows, policy, level=None):
    """Rows of a policy (at a level), by context and level."""
    found = [row for row in rows
             if row["policy"] == policy and level in (None, row["asked_percent"])]
    return sorted(found, key=lambda row: (row["context_tokens"], row["asked_percent"]))


def contexts(rows):
    return sorted({row["context_tokens"] for row in rows})


def tokens(count):
    return f"{count // 1024}k" if count % 1024 == 0 else str(count)


def prefill_alone(row):
    """What a stage after all others took."""
    return max(0.0, row["ttft_ms"] - row["restore_ms"])


def stacked(axes, labels, parts):
    """Bars of parts on top of each other; parts: name -> heights."""
    bottom = [0.0] * len(labels)
    for name, heights in parts.items():
        axes.bar(labels, heights, bottom=bottom, label=name, color=COLOURS[name], width=0.6)
        bottom = [a + b for a, b in zip(bottom, heights)]
    axes.legend(fontsize=8)


def figure_4(rows, plt):
    """Where the time goes when everything comes back one stage after the other."""
    found = pick(rows, "partial-offload", 0)
    if not found:
        return None
    figure, axes = plt.subplots(figsize=(4.5, 3.2))
    stacked(axes, [tokens(row["context_tokens"]) for row in found],
            {"allocate": [row["allocate_ms"] for row in found],
             "read": [row["read_ms"] for row in found],
             "prefill": [prefill_alone(row) for row in found]})
    axes.set_xlabel("context")
    axes.set_ylabel("ms")
    axes.set_title("Partial Offload, all of it restored")
    return figure


def figure_9(rows, plt):
    """TTFT against what remains in memory."""
    shown = [c for c in contexts(rows) if len({r["asked_percent"] for r in pick(rows, "mzcache")
                                               if r["context_tokens"] == c}) > 1]
    if not shown:
        return None
    figure, all_axes = plt.subplots(1, len(shown), figsize=(3.2 * len(shown) + 0.5, 3.2),
                                    squeeze=False)
    for axes, context in zip(all_axes[0], shown):
        for policy, mark in (("partial-offload", "s"), ("mzcache", "o")):
            found = [r for r in pick(rows, policy) if r["context_tokens"] == context]
            axes.plot([r["asked_percent"] for r in found], [r["ttft_ms"] for r in found],
                      marker=mark, label=policy)
        found = [r for r in pick(rows, "mzcache") if r["context_tokens"] == context]
        axes.plot([r["asked_percent"] for r in found], [r["bound_ms"] for r in found],
                  linestyle=":", color="black", label="lower bound")
        axes.set_title(tokens(context))
        axes.set_xlabel("remaining, %")
        axes.set_ylim(bottom=0)
    all_axes[0][0].set_ylabel("TTFT, ms")
    all_axes[0][0].legend(fontsize=8)
    return figure


def figure_10(rows, plt):
    """Allocation, reload and prefill by themselves, at half."""
    pairs = [(a, b) for a in pick(rows, "partial-offload", 50) for b in pick(rows, "no-overlap", 50)
             if a["context_tokens"] == b["context_tokens"]]
    if not pairs:
        return None
    figure, all_axes = plt.subplots(1, 3, figsize=(9, 3.2))
    stages = (("allocation", lambda r: r["allocate_ms"]),
              ("reload", lambda r: r["restore_ms"] - r["allocate_ms"]),
              ("prefill", prefill_alone))
    for axes, (name, value) in zip(all_axes, stages):
        for side, (policy, index) in enumerate((("partial-offload", 0), ("no-overlap", 1))):
            axes.bar([i + 0.4 * side for i in range(len(pairs))],
                     [value(pair[index]) for pair in pairs], width=0.38, label=policy)
        axes.set_xticks([i + 0.2 for i in range(len(pairs))],
                        [tokens(pair[0]["context_tokens"]) for pair in pairs])
        axes.set_title(name)
    all_axes[0].set_ylabel("ms")
    all_axes[0].legend(fontsize=8)
    return figure


def figure_11(rows, plt):
    """What overlapping and what the order of leaving bring, at half."""
    half = [row for row in rows if row["asked_percent"] == 50]
    have = {row["policy"] for row in half}
    if not have & {"no-overlap", "forward-out"} or "mzcache" not in have:
        return None
    figure, all_axes = plt.subplots(1, 2, figsize=(8, 3.2))
    for axes, (bars, title) in zip(all_axes, ((OVERLAPS, "overlap"), (ORDERS, "order"))):
        for side, (policy, label) in enumerate(bars):
            found = pick(half, policy)
            axes.bar([contexts(half).index(r["context_tokens"]) + 0.2 * side for r in found],
                     [r["ttft_ms"] for r in found], width=0.19, label=label)
        axes.set_xticks([i + 0.3 for i in range(len(contexts(half)))],
                        [tokens(c) for c in contexts(half)])
        axes.set_title(title)
        axes.legend(fontsize=8)
    all_axes[0].set_ylabel("TTFT, ms")
    return figure


def figure_12(rows, plt):
    """Both restore paths: one after the other, and at once."""
    found = [row for row in pick(rows, "no-overlap") if row["bytes_read"] + row["bytes_decoded"]]
    shown = contexts(found)
    if not shown:
        return None
    figure, all_axes = plt.subplots(1, len(shown), figsize=(3.2 * len(shown) + 0.8, 3.2),
                                    squeeze=False)
    for axes, context in zip(all_axes[0], shown):
        here = [row for row in found if row["context_tokens"] == context][::-1]
        at = list(range(len(here)))
        axes.bar(at, [r["read_ms"] for r in here], width=0.38, color=COLOURS["read"], label="read")
        axes.bar(at, [r["decode_ms"] for r in here], bottom=[r["read_ms"] for r in here],
                 width=0.38, color=COLOURS["decode"], label="decode")
        axes.bar([i + 0.4 for i in at], [r["restore_ms"] - r["allocate_ms"] for r in here],
                 width=0.38, color="#b279a2", label="at once")
        axes.set_xticks([i + 0.2 for i in at], [f"{r['asked_percent']:.0f} %" for r in here])
        axes.set_title(tokens(context))
    all_axes[0][0].set_ylabel("ms")
    all_axes[0][0].legend(fontsize=8)
    return figure


FIGURES = {4: figure_4, 9: figure_9, 10: figure_10, 11: figure_11, 12: figure_12}


def draw(rows, folder, name):
    """Writes the figures there are rows for; their numbers."""
    try:
        import matplotlib
    except ImportError:
        sys.exit("plots.py: matplotlib is missing (apt-get install python3-matplotlib)")
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "mzcache"  # the same rows, the same bytes
    from matplotlib import pyplot as plt
    os.makedirs(folder, exist_ok=True)
    drawn = []
    for number, make in FIGURES.items():
        figure = make(rows, plt)
        if figure is None:
            print(f"plots.py: no rows for figure {number}", file=sys.stderr)
            continue
        figure.tight_layout()
        figure.savefig(os.path.join(folder, f"{name}figure-{number:02}.svg"),
                       metadata={"Date": None})
        plt.close(figure)
        drawn.append(number)
    return drawn


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("files", nargs="+", metavar="ROWS.json")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER")
    parser.add_argument("--name", default="", help="what the pictures' names begin with")
    arguments = parser.parse_args()
    draw(load(arguments.files), arguments.output, arguments.name)


if __name__ == "__main__":
    main()
