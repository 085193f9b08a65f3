#!/usr/bin/env python3
"""Writes evaluation.md and its pictures from the pieces that bench/reproduce.sh measured.

    bench/evaluation.py PIECES_FOLDER DOCS_FOLDER
"""
import glob
import json
import os
import platform
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tools"))
import plots  # noqa: E402  (found beside the other tools)

TITLES = {"qwen3-0.6b": "Qwen3-0.6B, FP16", "exaone4-1.2b": "EXAONE-4.0-1.2B, FP16"}
MIB = 1 << 20
# Least and median efficiency that are aimed at, warm memory, reader at real-time priority.
WANTED = (0.90, 0.95)


def read(path):
    with open(path, encoding="utf-8") as stream:
        return json.load(stream)


def ratio_range(values, digits=2):
    ends = sorted({f"{value:.{digits}f}" for value in values if value}, key=float)
    if not ends:
        return "not measured"
    return ends[0] if len(ends) == 1 else f"{ends[0]} to {ends[-1]}"


def by_context(rows, level, over, under, value):
    """value(over) / value(under) at a level, a context each."""
    below = {r["context_tokens"]: value(r) for r in plots.pick(rows, under, level)}
    return [value(r) / below[r["context_tokens"]] for r in plots.pick(rows, over, level)
            if below.get(r["context_tokens"])]


def comparison(rows):
    """The paper's claims beside what these rows say."""
    def ttft(row):
        return row["ttft_ms"]

    def reload(row):
        return row["restore_ms"] - row["allocate_ms"]

    below_all = [row for row in rows if row["policy"] == "mzcache" and row["asked_percent"] < 100]
    shares = []
    for name, part in (("allocate", "allocate_ms"), ("read", "read_ms")):
        values = [100 * row[part] / row["ttft_ms"] for row in plots.pick(rows, "partial-offload", 0)]
        shares.append(f"{name} {ratio_range(values, 0)} %" if values else "")
    order = [f"{r['policy']} {r['ttft_ms']:.0f}" for r in sorted(
        (r for r in rows if r["asked_percent"] == 50
         and r["policy"] in ("mzcache", "forward-out", "random-out")), key=ttft)]
    paths = [f"{r['decode_ms']:.0f} / {r['read_ms']:.0f} ms" for r in plots.pick(rows, "no-overlap", 50)]
    return [
        ("speed-up over Partial Offload, 0 to 75 % (Figure 9)", "2.1 to 5.5",
         ratio_range([row["speed_up"] for row in below_all])),
        ("Partial Offload, all restored: shares of TTFT (Figure 4)",
         "allocation 10 to 13 %, reads 59 to 61 %", ", ".join(filter(None, shares)) or "not measured"),
        ("allocation, Partial Offload over no overlap, 50 % (Figure 10a)", "1.37",
         ratio_range(by_context(rows, 50, "partial-offload", "no-overlap", lambda r: r["allocate_ms"]))),
        ("reload, the same (Figure 10b)", "2.15",
         ratio_range(by_context(rows, 50, "partial-offload", "no-overlap", reload))),
        ("prefill, the same (Figure 10c)", "2.33 (another kernel)",
         ratio_range(by_context(rows, 50, "partial-offload", "no-overlap", plots.prefill_alone))),
        ("no overlap over allocation-reload, 50 % (Figure 11a)", "1.10",
         ratio_range(by_context(rows, 50, "no-overlap", "allocation-reload", ttft))),
        ("no overlap over reload-prefill, 50 %", "1.41",
         ratio_range(by_context(rows, 50, "no-overlap", "reload-prefill", ttft))),
        ("no overlap over all three, 50 %", "1.61",
         ratio_range(by_context(rows, 50, "no-overlap", "mzcache", ttft))),
        ("orders, fastest first, 50 %, ms (Figure 11b)", "backward, random, forward",
         ", ".join(order) or "not measured"),
        ("decoding / reading owed at 50 % (Figure 12)", "near equal", ", ".join(paths) or "not measured"),
    ]


def table(rows):
    lines = ["| context | left % | policy | TTFT ms (range) | alloc. | read | decode | wait | "
             "MiB read, decoded | saved % | × in memory | × faster than P.O. | bound | contended | "
             "efficiency | (with tail) | idle % | CPU, system ms |",
             "| ---: | ---: | --- | ---: |" + " ---: |" * 14]
    for row in sorted(rows, key=lambda r: (r["context_tokens"], -r["asked_percent"])):
        head = f"| {plots.tokens(row['context_tokens'])} | "
        if not row["reachable"]:
            lines.append(f"{head}{row['asked_percent']:.0f} | {row['policy']} | not reachable: "
                         f"{row['remaining_percent']:.0f} % remain |" + " |" * 14)
            continue
        saved = "" if row["saved_percent"] is None else f"{row['saved_percent']:.1f}"
        faster = "" if row["speed_up"] is None else f"{row['speed_up']:.2f}"
        lines.append(
            f"{head}{row['remaining_percent']:.1f} | {row['policy']} | {row['ttft_ms']:.0f} "
            f"({row['ttft_min_ms']:.0f} to {row['ttft_max_ms']:.0f}) | {row['allocate_ms']:.0f} | "
            f"{row['read_ms']:.0f} | {row['decode_ms']:.0f} | "
            f"{row['wait_ms']:.0f} | {row['bytes_read'] / MIB:.0f}, {row['bytes_decoded'] / MIB:.0f} | "
            f"{saved} | {row['in_memory_ratio']:.2f} | {faster} | {row['bound_ms']:.0f} | "
            f"{row['contended_bound_ms']:.0f} | {row['efficiency']:.3f} | "
            f"{row['efficiency_with_tail']:.3f} | {100 * row['idle_ms'] / row['ttft_ms']:.1f} | "
            f"{row['system_cpu_ms']:.0f} |")
    return lines


def section(model, folder, docs):
    pieces = sorted(glob.glob(os.path.join(folder, f"{model}-*k-*.json")))
    if not pieces:
        return []
    # Where a piece was measured with more repeats too, those count.
    best = {}
    for path in pieces:
        _, context, level, repeat = os.path.basename(path)[:-len(".json")].rsplit("-", 3)
        if int(repeat) >= best.get((context, level), (0, ""))[0]:
            best[context, level] = (int(repeat), path)
    everything = [(read(path), repeat) for repeat, path in best.values()]
    rows = [row for piece, _ in everything for row in piece["rows"]]
    reached = [row for row in rows if row["reachable"]]
    machine = everything[0][0]["machine"]
    lines = [f"## {TITLES[model]}", "",
             f"{machine['device']}, {machine['cores']} cores; {machine['memory']}; blocks of "
             f"{machine['storage_block_bytes'] // 1024} KiB, {machine['storage_depth']} in flight; codec "
             f"`{machine['codec']}`; {machine['state']} memory, {machine['fill']} context; medians of "
             f"{', '.join(sorted({str(repeat) for _, repeat in everything}))}.", ""]
    lines += table(rows)
    ours = [row["efficiency"] for row in reached
            if row["policy"] == "mzcache" and row["asked_percent"] < 100]
    if ours:
        middle = sorted(ours)[len(ours) // 2]
        reached_it = "reached" if min(ours) >= WANTED[0] and middle >= WANTED[1] else "not reached"
        lines += ["", f"Efficiency of `mzcache` below 100 %: {min(ours):.3f} at least, {middle:.3f} at the "
                      f"median; wanted: {WANTED[0]:.2f} and {WANTED[1]:.2f}, {reached_it}."]
    for name, unit in (("storage", MIB), ("memory", 1e9)):
        path = os.path.join(folder, f"{model}-{name}.json")
        if not os.path.exists(path):
            continue
        row = read(path)["rows"][0]
        if name == "storage":
            lines.append(f"\n`bench storage`: {row['bytes_per_s'] / unit:.0f} MiB/s, "
                         f"{row['ratio']:.3f} of {row['reference']}.")
        else:
            lines.append(f"\n`bench memory`: {row['bytes_per_s'] / unit:.1f} GB/s, {row['ratio']:.3f} of "
                         f"a bare loop; PSS fell by {row['pss_ratio']:.3f} of the report.")
    lines += ["", "| claim | paper (Galaxy S25+, Figure 4: OnePlus 12) | here |", "| --- | --- | --- |"]
    lines += [f"| {what} | {paper} | {here} |" for what, paper, here in comparison(reached)]
    lines.append("")
    for number in plots.draw(reached, os.path.join(docs, "evaluation"), model + "-"):
        lines.append(f"![The paper's Figure {number}](evaluation/{model}-figure-{number:02}.svg)")
    return lines + [""]


def main():
    folder, docs = sys.argv[1:3]
    with open(os.path.join(ROOT, "bench", "evaluation_head.md"), encoding="utf-8") as stream:
        lines = [stream.read().rstrip(), "", f"Linux {platform.release()}, {platform.machine()}.", ""]
    for model in TITLES:
        lines += section(model, folder, docs)
    with open(os.path.join(docs, "evaluation.md"), "w", encoding="utf-8") as stream:
        stream.write("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
