#!/usr/bin/env python3
"""Runs `quiver bench`, keeps its results by commit, and compares a build with the one of kept results.

bench.py run             all that the tables of bench/README.md show, as text
bench.py keep            the same into bench/results/COMMIT/, the oldest of five going
bench.py check [--base REV] [--turns N] [--only NAME]
                         this build and the base's in turns: which scenario costs 5 % more now?
                         The base is the commit of the results kept last; it is built anew.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results"
BINARY = ROOT / "target/release/quiver"
KEPT = 5
# More than this is a loss.
LIMIT = 1.05
# Turns more for what seems lost: neighbours of the machine come and go.
AGAIN = 10

SMALL = ["dumb", "ip4-1", "ip4-1k", "ip4-64nh", "ip4-ecmp4", "ip4-mixed", "ip6-1", "ip6-16"]
LARGE = ["ip4-100k", "ip4-1m", "ip4-1m-bgp", "ip4-1m-bgp-zipf", "ip4-8m", "ip6-200k-bgp", "ip6-200k-48", "ip6-2m"]
# By name: scenarios, options, environment.
RUNS = {
    "hot": (SMALL + LARGE, [], {}),
    "cold": (["dumb", "ip4-1", "ip4-1k"], ["--cold"], {}),
    "vector-16": (["ip4-1"], ["--vector", "16"], {}),
    "vector-1": (["ip4-1"], ["--vector", "1"], {}),
    "avx2": (["ip4-1", "ip4-64nh", "ip4-ecmp4", "ip4-1m-bgp"], [], {"QUIVER_SIMD": "avx2"}),
    "scalar": (["ip4-1", "ip4-64nh", "ip4-ecmp4", "ip4-1m-bgp"], [], {"QUIVER_SIMD": "scalar"}),
    "imix": (["ip4-1", "ip6-1"], ["--imix"], {}),
    "urpf": (["ip4-1", "ip6-1"], ["--urpf"], {}),
    "tags-1": (["ip4-1"], ["--vlan", "1"], {}),
    "workers-2": (["ip4-1"], ["--workers", "2"], {}),
    "handoff": (["ip4-1"], ["--workers", "2", "--handoff"], {}),
}


def git(*words, **options):
    return subprocess.run(
        ["git", "-C", ROOT, *words], check=True, text=True, stdout=subprocess.PIPE, **options
    ).stdout.strip()


def bench(binary, scenarios, options, environment, *more):
    """What one run prints; None when that build knows no such scenario or option."""
    words = [binary, "bench", *scenarios, *options, *more]
    done = subprocess.run(
        words, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **environment}
    )
    return done.stdout if done.returncode == 0 else None


def run():
    for name, (scenarios, options, environment) in RUNS.items():
        print(f"== {name}", flush=True)
        print(bench(BINARY, scenarios, options, environment) or "failed", flush=True)


def keep():
    if git("status", "--porcelain", "--untracked-files=no"):
        sys.exit("Results are kept by commit: commit your changes, build, and keep them then.")
    to = RESULTS / git("rev-parse", "--short=10", "HEAD")
    to.mkdir(parents=True, exist_ok=True)
    for name, (scenarios, options, environment) in RUNS.items():
        print(name, flush=True)
        found = bench(BINARY, scenarios, options, environment, "--json")
        if found is None:
            sys.exit(f"{name} failed")
        (to / f"{name}.json").write_text(found)
    for old in kept()[KEPT:]:
        shutil.rmtree(old)


def kept():
    """Directories of results, the newest commit first."""
    known = [entry for entry in RESULTS.iterdir() if entry.is_dir()]
    order = git("log", "--format=%H").split()
    place = lambda entry: next((at for at, commit in enumerate(order) if commit.startswith(entry.name)), len(order))
    return sorted(known, key=place)


def build_base(revision):
    """The binary of that commit, built in a work tree of its own."""
    try:
        git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    except subprocess.CalledProcessError:
        sys.exit(f"{revision}: there is no such commit here (a shallow clone has the last ones only).")
    tree = ROOT / "target/bench-base/tree"
    if tree.exists():
        subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", tree], check=False)
    git("worktree", "prune")
    git("worktree", "add", "--detach", tree, revision, stderr=subprocess.DEVNULL)
    target = ROOT / "target/bench-base/target"
    words = ["cargo", "build", "--release", "--locked", "-p", "quiver"]
    subprocess.run(words, cwd=tree, check=True, env={**os.environ, "CARGO_TARGET_DIR": str(target)})
    git("worktree", "remove", "--force", tree)
    return target / "release/quiver"


def clocks(binary, scenario, options, environment):
    found = bench(binary, [scenario], options, environment, "--json", "--repeat", "5")
    return json.loads(found)["results"][0]["clocks_per_packet"]["median"] if found else None


def turns(count, base, what):
    """Pairs of medians, base first and last in turns."""
    pairs = []
    for turn in range(count):
        order = [base, BINARY] if turn % 2 == 0 else [BINARY, base]
        measured = {binary: clocks(binary, *what) for binary in order}
        if None in measured.values():
            return None
        pairs.append((measured[base], measured[BINARY]))
    return pairs


def ratio(pairs):
    return statistics.median(new / old for old, new in pairs)


def check(options):
    newest = kept()
    revision = options.base or (newest[0].name if newest else sys.exit("There are no kept results: bench.py keep."))
    labels = [
        scenario if name == "hot" else f"{scenario} {name}" for name, (some, *_) in RUNS.items() for scenario in some
    ]
    if options.only and not any(options.only in label for label in labels):
        sys.exit(f"No scenario has {options.only} in its label: {', '.join(labels)}.")
    base = build_base(revision)
    print(f"clocks a packet, median of {options.turns} turns: {revision} and this build")
    lost = []
    for name, (scenarios, words, environment) in RUNS.items():
        for scenario in scenarios:
            label = scenario if name == "hot" else f"{scenario} {name}"
            if options.only and options.only not in label:
                continue
            what = (scenario, words, environment)
            pairs = turns(options.turns, base, what)
            if pairs is None:
                print(f"  {label:<26} not in both")
                continue
            if ratio(pairs) > LIMIT:
                pairs += turns(AGAIN, base, what)
            old, new = (statistics.median(column) for column in zip(*pairs))
            verdict = "LOST" if ratio(pairs) > LIMIT else ""
            print(f"  {label:<26}{old:>9.1f}{new:>9.1f}{(ratio(pairs) - 1) * 100:>+8.1f} %  {verdict}", flush=True)
            if verdict:
                lost.append(label)
    if lost:
        sys.exit(f"more than {(LIMIT - 1) * 100:.0f} % lost: {', '.join(lost)}")
    print("nothing lost")


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "keep", "check"])
    parser.add_argument("--base", help="commit to compare with")
    parser.add_argument("--turns", type=positive, default=5)
    parser.add_argument("--only", help="scenarios whose label has this in it")
    options = parser.parse_args()
    if not BINARY.exists():
        sys.exit(f"{BINARY.relative_to(ROOT)} is not there: make build.")
    {"run": run, "keep": keep, "check": lambda: check(options)}[options.what]()


if __name__ == "__main__":
    main()
