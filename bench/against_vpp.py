#!/usr/bin/env python3
"""Draws docs/quiver-and-vpp.svg, README's picture: what a packet costs in Quiver and in VPP on one machine."""

import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTH, LEFT, RIGHT, TOP, ROW, BAR = 860, 150, 90, 70, 62, 20
QUIVER, VPP = "#2a6fb0", "#c9c2d6"


def main():
    found = json.loads((ROOT / "bench/peers/vpp-avx2.json").read_text())["results"]
    most = max(row["vpp"] for row in found)
    scale = (WIDTH - LEFT - RIGHT) / most
    height = TOP + ROW * len(found) + 34
    parts = []

    def text(x, y, words, size=13, anchor="start", weight="normal", colour="#222"):
        parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" '
            f'fill="{colour}">{words}</text>'
        )

    text(20, 28, "Clocks a packet: shorter is faster", 16, weight="bold")
    text(
        20,
        50,
        "One worker on a 2-core AMD Zen 3 virtual machine (AVX2, TSC 2445 MHz), 64-byte frames, vectors of 256",
        12,
        colour="#555",
    )
    for number, row in enumerate(found):
        y = TOP + ROW * number
        text(LEFT - 12, y + BAR + 4, row["scenario"], anchor="end")
        for line, (name, colour) in enumerate((("Quiver", QUIVER), ("VPP", VPP))):
            clocks = row[name.lower()]
            top = y + line * (BAR + 2)
            parts.append(f'<rect x="{LEFT}" y="{top}" width="{clocks * scale:.1f}" height="{BAR}" fill="{colour}"/>')
            text(
                LEFT + clocks * scale + 6,
                top + 15,
                f"{clocks:.0f} {name}",
                12,
                weight="bold" if line == 0 else "normal",
            )
    text(
        20,
        height - 14,
        "VPP 26.10 as packaged; measured on 2026-11-25, minutes apart (bench/peers/vpp-avx2.json). Yours will "
        "differ: make bench",
        11,
        colour="#555",
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" role="img">'
    )
    title = "<title>Clocks a packet in Quiver and in VPP</title>"
    body = [head, title, f'<rect width="{WIDTH}" height="{height}" fill="white"/>', *parts, "</svg>", ""]
    (ROOT / "docs/quiver-and-vpp.svg").write_text("\n".join(body))


if __name__ == "__main__":
    main()
