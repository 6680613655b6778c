#!/usr/bin/env python3
"""Draws docs/fast-path.svg from the results kept last: clocks a packet, node by node, against the size of the table."""

import json
import pathlib

import bench

ROOT = bench.ROOT
SCENARIOS = [
    ("ip4-1", "1 route"),
    ("ip4-1k", "1000"),
    ("ip4-100k", "100,000"),
    ("ip4-1m", "1M side by side"),
    ("ip4-1m-bgp", "1M as the Internet's"),
    ("ip4-8m", "8M"),
]
# From the ground up; what a node is called, and its colour.
NODES = [
    ("ethernet-input", "#3b6ea8"),
    ("ip4-input", "#7aa6d6"),
    ("ip4-lookup", "#d9822b"),
    ("ip4-rewrite", "#4d9a6a"),
    ("output", "#9ccfae"),
    ("tx", "#b8b8b8"),
    ("between nodes", "#dddddd"),
]
OTHER = ("not told apart", "#c9c2d6")
WIDTH, HEIGHT, LEFT, GROUND, TOP = 860, 430, 60, 350, 60
BAR, GAP = 42, 8


def quiver():
    """Clocks by scenario and node, of the newest results; and where they are from."""
    newest = bench.kept()[0]
    found = json.loads((newest / "hot.json").read_text())
    clocks = {}
    for result in found["results"]:
        nodes = {"between nodes": result["residue"]}
        for node in result["nodes"]:
            name = node["name"].removeprefix("null0-")
            nodes[name] = nodes.get(name, 0) + node["clocks"]
        clocks[result["scenario"]] = (nodes, result["clocks_per_packet"]["median"])
    return clocks, newest.name, found["machine"]


def vpp():
    found = json.loads((ROOT / "bench/peers/vpp.json").read_text())
    return {result["scenario"]: (result["nodes"], result["sum"]) for result in found["results"]}


class Picture:
    def __init__(self, most):
        self.parts = []
        self.scale = (GROUND - TOP) / most

    def text(self, x, y, text, size=12, anchor="middle", weight="normal", colour="#222"):
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" '
            f'fill="{colour}">{text}</text>'
        )

    def bar(self, x, nodes, whole, label):
        y, told = GROUND, 0
        for name, colour in NODES:
            y = self.block(x, y, nodes.get(name, 0), colour, f"{label} {name}")
            told += nodes.get(name, 0)
        self.block(x, y, max(whole - told, 0), OTHER[1], f"{label}: {OTHER[0]}")
        top = GROUND - max(whole, told) * self.scale
        self.text(x + BAR / 2, top - 5, f"{whole:.0f}", 12, weight="bold")

    def block(self, x, y, clocks, colour, title):
        height = clocks * self.scale
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y - height:.1f}" width="{BAR}" height="{height:.1f}" '
            f'fill="{colour}"><title>{title}: {clocks:.1f}</title></rect>'
        )
        return y - height

    def grid(self, step, most):
        for clocks in range(0, int(most) + 1, step):
            y = GROUND - clocks * self.scale
            self.parts.append(f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e4e4e4"/>')
            self.text(LEFT - 8, y + 4, clocks, 11, "end", colour="#666")

    def legend(self):
        x = LEFT
        for name, colour in [*NODES, OTHER]:
            self.parts.append(f'<rect x="{x}" y="{HEIGHT - 22}" width="12" height="12" fill="{colour}"/>')
            self.text(x + 17, HEIGHT - 12, name, 11, "start")
            x += 30 + 6.3 * len(name)

    def svg(self):
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">'
        return "\n".join([head, f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', *self.parts, "</svg>", ""])


def main():
    ours, commit, machine = quiver()
    theirs = vpp()
    most = max(whole for _, whole in theirs.values()) * 1.05
    picture = Picture(most)
    picture.grid(25, most)
    picture.text(
        LEFT,
        24,
        "Clocks of the time stamp counter a packet, IPv4, one worker, 64 bytes, vectors of 256",
        14,
        "start",
        "bold",
    )
    picture.text(
        LEFT,
        42,
        f"left: Quiver at {commit} on {machine['cpu']}, {machine['kernels']} kernels; right: VPP 26.10, Zen 5 "
        f"(bench/peers/vpp.json)",
        11,
        "start",
        colour="#555",
    )
    step = (WIDTH - LEFT - 20) / len(SCENARIOS)
    for number, (scenario, label) in enumerate(SCENARIOS):
        middle = LEFT + step * (number + 0.5)
        picture.bar(middle - BAR - GAP / 2, *ours[scenario], "Quiver")
        picture.bar(middle + GAP / 2, *theirs[scenario], "VPP")
        picture.text(middle - BAR / 2 - GAP / 2, GROUND + 14, "Quiver", 10, colour="#555")
        picture.text(middle + BAR / 2 + GAP / 2, GROUND + 14, "VPP", 10, colour="#555")
        picture.text(middle, GROUND + 32, label, 12)
    picture.legend()
    (ROOT / "docs/fast-path.svg").write_text(picture.svg())


if __name__ == "__main__":
    main()
