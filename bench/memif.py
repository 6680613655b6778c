#!/usr/bin/env python3
"""Forwarding from one memif to another: this router, in the same process and in one of its own, dpdk-testpmd and
DPDK's l3fwd. All run between the rings of the same generator, in turns.

  memif.py run     a table of all that are installed
  memif.py keep    the same and frames of many sizes, kept in bench/memif.json and drawn into docs/guide/memif-sizes.svg

l3fwd is made of the examples of Debian's package dpdk-doc, when that is there.
"""

import argparse
import contextlib
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = ROOT / "target/release/quiver"
KEPT = ROOT / "bench/memif.json"
PICTURE = ROOT / "docs/guide/memif-sizes.svg"
EXAMPLES = pathlib.Path("/usr/share/dpdk/examples")
TURNS = 3
WINDOWS = "5"


def quiver(*words):
    done = subprocess.run(
        [BINARY, "bench", "memif", "--json", "--repeat", WINDOWS, *words], text=True, stdout=subprocess.PIPE
    )
    if done.returncode != 0:
        sys.exit(f"'quiver bench memif {' '.join(words)}' ended with {done.returncode}")
    return json.loads(done.stdout)


def devices(directory):
    """Two memifs of a DPDK program: masters, with rings like ours."""
    common = "socket-abstract=no,rsize=10,bsize=2048"
    names = (("in", 0), ("out", 1))
    return [
        f"--vdev=net_memif{number},role=server,id={number},socket={directory}/{name}.sock,{common}"
        for name, number in names
    ]


def testpmd(directory):
    """'io': hands on what came. With bursts of 256 it is at its best here."""
    return [
        "dpdk-testpmd",
        "--no-huge",
        "-m",
        "512",
        "--no-pci",
        "--file-prefix",
        directory.name,
        "--lcores",
        "0@1,1@0",
        *devices(directory),
        "--",
        "--forward-mode=io",
        "--auto-start",
        "--burst=256",
        "--no-lsc-interrupt",
        "--total-num-mbufs=32768",
        "-i",
    ]


def l3fwd(directory):
    """Looks one of two routes up (longest prefix match)."""
    return [
        build_l3fwd(),
        "--no-huge",
        "-m",
        "512",
        "--no-pci",
        "--file-prefix",
        directory.name,
        "--lcores",
        "0@0",
        *devices(directory),
        "--",
        "-p",
        "0x3",
        "-P",
        "--config=(0,0,0),(1,0,0)",
        "--parse-ptype",
        "--lookup=lpm",
    ]


def second_quiver(directory):
    """A router of its own: one route, and nothing else."""
    (directory / "commands").write_text(
        "".join(
            f"create memif socket id {number + 1} filename {directory}/{name}.sock\n"
            f"create interface memif id {number} socket-id {number + 1} master hw-addr 02:00:00:00:00:0{number + 1} "
            f"name m{number}\n"
            f"set interface ip address m{number} 100.64.{number + 1}.1/24\nset interface state m{number} up\n"
            f"set interface rx-mode m{number} polling\n"
            for name, number in (("in", 0), ("out", 1))
        )
        + "set ip neighbor m1 100.64.2.2 02:00:00:00:00:bb\nip route add 198.18.1.0/24 via 100.64.2.2 m1\n"
    )
    (directory / "startup.conf").write_text(
        f"unix "
        f"{{\n  nodaemon\n  cli-listen {directory}/cli.sock\n  log {directory}/quiver.log\n"
        f"  exec {directory}/commands\n}}\n"
        "cpu { workers 1 corelist-workers 0 }\n"
    )
    return [BINARY, "run", "--config", directory / "startup.conf"]


def build_l3fwd():
    made = ROOT / "target/l3fwd/l3fwd/build/l3fwd"
    if not made.exists():
        place = ROOT / "target/l3fwd"
        shutil.rmtree(place, ignore_errors=True)
        for part in ("l3fwd", "common"):
            shutil.copytree(EXAMPLES / part, place / part)
        main = place / "l3fwd/main.c"
        # A memif checks no checksums, and l3fwd insists.
        main.write_text(main.read_text().replace(".offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM,", ".offloads = 0,"))
        subprocess.run(["make", "-C", place / "l3fwd", "shared"], check=True, stdout=subprocess.DEVNULL)
    return made


@contextlib.contextmanager
def running(command):
    """Another program between two memifs, for as long as it is measured."""
    with tempfile.TemporaryDirectory(prefix="quiver-bench-") as name:
        directory = pathlib.Path(name)
        with open(directory / "log", "w") as log:
            process = subprocess.Popen(command(directory), stdin=subprocess.PIPE, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 15
            while not all((directory / f"{end}.sock").exists() for end in ("in", "out")):
                if process.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"it did not begin:\n{(directory / 'log').read_text()[-2000:]}")
                time.sleep(0.1)
            time.sleep(1)
            yield directory
        finally:
            process.terminate()
            process.wait(10)


def rivals():
    found = {"two Quivers": second_quiver}
    if shutil.which("dpdk-testpmd"):
        found["testpmd io"] = testpmd
        if (EXAMPLES / "l3fwd/main.c").exists():
            found["l3fwd"] = l3fwd
        else:
            print("l3fwd: not measured (its source is in the package dpdk-doc)")
    else:
        print("dpdk-testpmd, l3fwd: not measured (package dpdk-dev)")
    return found


def compare():
    """Of each device and rate, the medians of all turns."""
    seen, machine = {}, None
    others = rivals()
    for turn in range(TURNS):
        print(f"turn {turn + 1} of {TURNS}", file=sys.stderr)
        report = quiver()
        machine = report["machine"]
        results = [(f"Quiver {result['scenario']}", result) for result in report["memif"]]
        for name, command in others.items():
            with running(command) as directory:
                results += [(name, result) for result in quiver("--device", str(directory))["memif"]]
        for name, result in results:
            seen.setdefault((name, result["offered_mpps"]), []).append(result)
    rows = []
    for (name, offered), results in seen.items():

        def spread(key):
            values = [result[key] for result in results if result[key] is not None]
            if not values:
                return None
            return {
                "median": statistics.median(value["median"] for value in values),
                "min": min(value["min"] for value in values),
                "max": max(value["max"] for value in values),
            }

        rows.append(
            {
                "device": name,
                "offered_mpps": offered,
                "mpps": spread("mpps"),
                "clocks_per_packet": spread("clocks_per_packet"),
                "line_clocks": spread("line_clocks"),
                "lost": statistics.mean(result["lost"] for result in results),
            }
        )
    return machine, rows


def show(rows):
    print(f"{'device':<16}{'offered':>9}  {'Mpps back':<22}{'clocks/packet':<24}{'lost':>9}  line from core to core")
    for row in rows:

        def text(value, digits):
            return (
                "-"
                if value is None
                else f"{value['median']:.{digits}f} ({value['min']:.{digits}f}-{value['max']:.{digits}f})"
            )

        offered = "all" if row["offered_mpps"] is None else f"{row['offered_mpps']:.0f}"
        print(
            f"{row['device']:<16}{offered:>9}  {text(row['mpps'], 1):<22}{text(row['clocks_per_packet'], 1):<24}"
            f"{100 * row['lost']:>8.3f}%  {text(row['line_clocks'], 0)}"
        )


def draw(sweep):
    """Packets a second by size: steps where another cache line begins."""
    width, height, left, bottom, top, right = 860, 420, 60, 50, 30, 60
    longest = max(result["size"] for result in sweep)
    most = 5 * (1 + int(max(result["mpps"]["median"] for result in sweep) // 5))
    highest = 10 * (1 + int(max(result["mpps"]["median"] * result["size"] * 8e-3 for result in sweep) // 10))

    def x(size):
        # Small sizes are what matters: a square root gives them room.
        return left + (size**0.5 - 7) / (longest**0.5 - 7) * (width - left - right)

    def y(value, full):
        return height - bottom - value / full * (height - bottom - top)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for line in range(64, longest, 64):
        shade = "#e4e8ee" if line <= 512 else "#f3f5f8"
        parts.append(f'<path d="M{x(line):.1f} {top}V{height - bottom}" stroke="{shade}"/>')
    for value in range(0, most + 1, 5):
        parts.append(
            f'<text x="{left - 8}" y="{y(value, most) + 4:.1f}" text-anchor="end" fill="#30475e">{value}</text>'
        )
    for value in range(0, highest + 1, 10):
        parts.append(f'<text x="{width - right + 8}" y="{y(value, highest) + 4:.1f}" fill="#a0522d">{value}</text>')
    for size in (64, 128, 192, 256, 384, 512, 768, 1024, 1280, 1514):
        parts.append(
            f'<text x="{x(size):.1f}" y="{height - bottom + 18}" text-anchor="middle" fill="#444">{size}</text>'
        )
    parts.append(f'<path d="M{left} {top}V{height - bottom}H{width - right}V{top}" fill="none" stroke="#8a97a6"/>')
    colours = {"dumb": ("#1f5fa8", "#d08a5b"), "ip4-1": ("#2f8f57", "#b0522d")}
    names = {"dumb": "handed on", "ip4-1": "routed (IPv4)"}
    for number, (scenario, (packets, bits)) in enumerate(colours.items()):
        points = [(result["size"], result["mpps"]["median"]) for result in sweep if result["scenario"] == scenario]
        line = " ".join(f"{x(size):.1f},{y(rate, most):.1f}" for size, rate in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{packets}" stroke-width="2"/>')
        parts += [
            f'<circle cx="{x(size):.1f}" cy="{y(rate, most):.1f}" r="2.5" fill="{packets}"/>' for size, rate in points
        ]
        line = " ".join(f"{x(size):.1f},{y(rate * size * 8e-3, highest):.1f}" for size, rate in points)
        parts.append(
            f'<polyline points="{line}" fill="none" stroke="{bits}" stroke-width="1.5" stroke-dasharray="5 4"/>'
        )
        parts.append(
            f'<text x="{width / 2}" y="{top + 14 + 18 * number}" fill="{packets}">{names[scenario]}: Mpps</text>'
        )
        parts.append(f'<text x="{width / 2 + 150}" y="{top + 14 + 18 * number}" fill="{bits}">Gbit/s (dashed)</text>')
    parts.append(f'<text x="{left}" y="{top - 10}" fill="#30475e">million packets a second</text>')
    parts.append(f'<text x="{width - right + 40}" y="{top - 10}" text-anchor="end" fill="#a0522d">Gbit/s</text>')
    parts.append(
        f'<text x="{width / 2}" y="{height - 10}" text-anchor="middle" fill="#444">bytes of a frame, without its '
        f"check sequence; a cache line ends at each upright line</text>"
    )
    parts.append("</svg>")
    PICTURE.write_text("\n".join(parts) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "keep"))
    what = parser.parse_args().what
    machine, rows = compare()
    show(rows)
    if what == "keep":
        sweep = quiver("--sweep")["memif"]
        KEPT.write_text(json.dumps({"machine": machine, "devices": rows, "sweep": sweep}, indent=1) + "\n")
        draw(sweep)


if __name__ == "__main__":
    main()
