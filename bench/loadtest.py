#!/usr/bin/env python3
"""The load tester itself: how many packets a core makes, how well it keeps a rate, and what accounting costs.

  loadtest.py run     a table
  loadtest.py keep    the same, kept in bench/loadtest.json

Each figure is the median of several runs of a second, with minimum and maximum. Compared variants run in turns.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = ROOT / "target/release/quiver"
KEPT = ROOT / "bench/loadtest.json"
NOBODY = ROOT / "bench/loadtest/nobody.toml"
TURNS = 7
# What is measured, how, and what it is to reach, in Mpps.
RATES = {
    "null, one stream": (["--dut", "null", "-p", "bench"], 60),
    "null, random addresses and checksums": (["--dut", "null", "-p", "bench-random-64b"], 40),
    "null, imix of three streams": (["--dut", "null", "-p", "bench-var2-imix"], None),
    "null, 1514 bytes": (["--dut", "null", "-p", "bench-var2-1514b"], None),
    "memif, one stream, the router drops": (["--dut", "quiver", "-p", NOBODY], 30),
    "memif and back, one stream routed": (["--dut", "quiver", "-p", "bench"], None),
    "memif and back, random addresses": (["--dut", "quiver", "-p", "bench-random-64b"], None),
}
COSTS = {
    "to a null port, one stream": ["--dut", "null", "-p", "bench"],
    "in a thread with the known device": ["--dut", "reference", "-p", "bench"],
    "through a router, one stream": ["--dut", "quiver", "-p", "bench"],
    "through a router, random addresses": ["--dut", "quiver", "-p", "bench-random-64b"],
}
PACES = ["1kpps", "10kpps", "100kpps", "1Mpps", "5Mpps", "10Mpps"]


def run(*words, rate="max", seconds=1):
    command = [BINARY, "loadtest", "run", *words, "-m", rate, "-d", seconds, "--output", "-"]
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"'{' '.join(map(str, command))}' ended with {done.returncode}")
    return json.loads(done.stdout)


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def text(figures, digits=2):
    return "{median:.{d}f} ({min:.{d}f}-{max:.{d}f})".format(**figures, d=digits)


def rates():
    runs = {name: [] for name in RATES}
    for _ in range(TURNS):
        for name, (words, _) in RATES.items():
            runs[name].append(run(*words))
    found = {}
    print(f"\n{'Mpps of one core':<42}{'sent':>22}{'clocks':>9}{'received':>22}{'to reach':>10}{'line, clocks':>17}")
    for name, (_, goal) in RATES.items():
        ports = [report["ports"][0] for report in runs[name]]
        sent = spread([port["sent_pps"] / 1e6 for port in ports])
        came = spread([port["received_pps"] / 1e6 for port in ports])
        clocks = runs[name][0]["machine"]["ticks_per_second"] / sent["median"] / 1e6
        found[name] = {"sent_mpps": sent, "received_mpps": came, "clocks_per_packet": clocks}
        # What a cache line takes from core to core: by it memif is as fast as it is.
        lines = [report["line_clocks"] for report in runs[name] if report["line_clocks"]]
        if lines:
            found[name]["line_clocks"] = spread(lines)
        line = text(spread(lines), 0) if lines else "-"
        print(f"{name:<42}{text(sent):>22}{clocks:>9.1f}{text(came):>22}{goal or '-':>10}{line:>17}")
    return found


def pacing():
    found = {}
    print(
        f"\n{'Pacing, 5 s each':<20}{'rate is wrong by, %':>24}{'left out, %':>24}"
        f"{'late, us: p50':>16}{'p99':>9}{'p99.9':>9}"
    )
    for rate in PACES:
        reports = [run("--dut", "null", "-p", "bench", rate=rate, seconds=5) for _ in range(3)]
        ports = [report["ports"][0] for report in reports]
        wanted = reports[0]["streams"][0]["wanted_pps"]
        left = [sum(port["not_sent"].values()) for port in ports]
        # What the machine took away is told apart: the schedule is judged by what it had to send.
        due = [(port["sent_packets"] + out) / report["seconds"] for port, out, report in zip(ports, left, reports)]
        wrong = spread([100 * abs(rate / wanted - 1) for rate in due])
        out = spread([100 * each / (port["sent_packets"] + each) for each, port in zip(left, ports)])
        late = {
            key: statistics.median(report["lateness"][key] for report in reports) for key in ("p50", "p99", "p99_9")
        }
        found[rate] = {"wrong_percent": wrong, "left_out_percent": out, "late_us": late}
        print(
            f"{rate:<20}{text(wrong, 4):>24}{text(out, 3):>24}"
            f"{late['p50']:>16.2f}{late['p99']:>9.2f}{late['p99_9']:>9.2f}"
        )
    return found


def costs():
    runs = {name: {"with": [], "without": []} for name in COSTS}
    for _ in range(TURNS):
        for name, words in COSTS.items():
            for how, more in (("with", []), ("without", ["--no-accounting"])):
                report = run(*words, *more)
                # Without accounting only the port itself knows what came.
                came = report["carried"][1]["received_packets"] or report["carried"][0]["sent_packets"]
                runs[name][how].append(came / report["seconds"] / 1e6)
    found = {}
    print(f"\n{'Accounting: Mpps that get through':<42}{'with':>22}{'without':>22}{'clocks':>8}{'of rate':>9}")
    for name in COSTS:
        both = {how: spread(values) for how, values in runs[name].items()}
        share = 1 - both["with"]["median"] / both["without"]["median"]
        ticks = TICKS / 1e6
        clocks = ticks / both["with"]["median"] - ticks / both["without"]["median"]
        found[name] = {**both, "clocks": clocks, "share": share}
        print(f"{name:<42}{text(both['with']):>22}{text(both['without']):>22}{clocks:>8.1f}{100 * share:>8.1f}%")
    return found


def main():
    global TICKS
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("action", choices=["run", "keep"])
    action = arguments.parse_args().action
    machine = run("--dut", "null", rate="1kpps", seconds=0.1)["machine"]
    TICKS = machine["ticks_per_second"]
    print(f"{machine['processor']}, {machine['cores']} cores, {TICKS / 1e6:.0f} MHz")
    found = {"machine": machine, "rates": rates(), "pacing": pacing(), "accounting": costs()}
    if action == "keep":
        KEPT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
