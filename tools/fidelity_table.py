#!/usr/bin/env python3
"""The table and the picture of tools/fidelity.sh: fidelity_table.py FOLDER"""
import json
import math
import os
import sys

TEXTS = ("prose", "tech")


def rows(folder, what, text):
    with open(os.path.join(folder, f"{what}-{text}.json"), encoding="utf-8") as file:
        return {row["codec"]: row for row in json.load(file)["rows"]}


def table(kl, lookup):
    lines = ["| codec | prose: saved %, KL, KL p99, top-1 %, lookup % | tech: the same |",
             "| --- | --- | --- |"]
    untouched = ", ".join(f"{lookup[text]['untouched']['whole_percent']:.1f}" for text in TEXTS)
    lines.append(f"| untouched (lookup: prose, tech) | {untouched.split(', ')[0]} | {untouched.split(', ')[1]} |")
    for codec in kl[TEXTS[0]]:
        cells = []
        for text in TEXTS:
            row = kl[text][codec]
            cells.append(f"{row['saved_percent']:.1f}, {row['kl']:.5f}, {row['kl_p99']:.4f}, "
                         f"{row['top1_percent']:.1f}, {lookup[text][codec]['whole_percent']:.1f}")
        lines.append(f"| `{codec}` | {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


def picture(kl):
    """Savings to the right, divergence upwards on a logarithmic scale."""
    width, height, left, bottom = 640, 400, 70, 40
    points = [(text, codec, row["saved_percent"], max(row["kl"], 1e-6))
              for text in TEXTS for codec, row in kl[text].items() if row["kl"] > 1e-7]
    low, high = -5.0, -1.5

    def place(saved, divergence):
        share = (math.log10(divergence) - low) / (high - low)
        return left + saved / 100 * (width - left - 20), height - bottom - share * (height - bottom - 20)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
           'font-family="sans-serif" font-size="11">', '<rect width="100%" height="100%" fill="white"/>']
    for saved in range(0, 101, 10):
        x, _ = place(saved, 1e-5)
        out.append(f'<line x1="{x}" y1="20" x2="{x}" y2="{height - bottom}" stroke="#ddd"/>'
                   f'<text x="{x}" y="{height - 24}" text-anchor="middle">{saved}</text>')
    for power in range(-5, -1):
        _, y = place(0, 10.0 ** power)
        out.append(f'<line x1="{left}" y1="{y}" x2="{width - 20}" y2="{y}" stroke="#ddd"/>'
                   f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">1e{power}</text>')
    out.append(f'<text x="{width / 2}" y="{height - 6}" text-anchor="middle">saved %</text>'
               f'<text x="16" y="{height / 2}" transform="rotate(-90 16 {height / 2})" '
               'text-anchor="middle">KL divergence</text>')
    for text, codec, saved, divergence in points:
        x, y = place(saved, divergence)
        fill = "#1f77b4" if text == "prose" else "#ff7f0e"
        out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{fill}"/>')
        if text == "prose":
            out.append(f'<text x="{x - 7:.1f}" y="{y + 4:.1f}" text-anchor="end">{codec}</text>')
    out.append('<circle cx="90" cy="30" r="4" fill="#1f77b4"/><text x="98" y="34">prose</text>'
               '<circle cx="90" cy="46" r="4" fill="#ff7f0e"/><text x="98" y="50">tech</text></svg>')
    return "\n".join(out)


def main():
    folder = sys.argv[1]
    kl = {text: rows(folder, "kl", text) for text in TEXTS}
    lookup = {text: rows(folder, "lookup", text) for text in TEXTS}
    with open(os.path.join(folder, "fidelity.svg"), "w", encoding="utf-8") as file:
        file.write(picture(kl) + "\n")
    print(table(kl, lookup))


if __name__ == "__main__":
    main()
