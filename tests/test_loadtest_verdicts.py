"""What the load tester says of devices whose limit was planted: each is held back by something else."""

import json
import re

import pytest

from lab import QUIVER, run, true_or_disturbed

pytestmark = pytest.mark.alone
# Whatever others use of the machine.
CALM = ("--others", "100")


@pytest.mark.parametrize(
    "device, rate, bound, evidence",
    [
        # Each packet costs 20000 clocks more: there is no time left.
        ("quiver:work=20000", "max", "cpu", r"worker 0: 2\d\d.* packets a call.*Hz of .*Hz: (9\d|10\d) % of the clock"),
        # The card brings a fifth: the worker waits for it.
        ("quiver:card=20kpps", "100kpps", "device", r"its workers had time left: what was lost was lost ahead of them"),
        # The line takes a fifth: what is to leave finds its queue full.
        ("quiver:line=20kpps", "100kpps", "queue", r"the router dropped \d+ at e1-tx"),
        # Nothing is in its way.
        ("reference:", "max", "generator", r"all that the load tester could send came"),
        ("quiver", "2kpps", "nothing", r"% of its time in idle polls"),
    ],
)
def test_what_holds_a_device_back_is_named(device, rate, bound, evidence, tmp_path):
    file = tmp_path / "run.json"
    run(QUIVER, "loadtest", "run", "--dut", device, "-p", "bench", "-m", rate, "-d", "1", "-o", file, *CALM)
    verdict = json.loads(file.read_text())["verdict"]
    with true_or_disturbed(file):
        assert verdict["bound"] == bound, verdict
        assert re.search(evidence, "; ".join(verdict["evidence"])), verdict


def test_sizes_that_end_within_a_cache_line_are_named(tmp_path):
    file = tmp_path / "session.json"
    device = "reference:capacity=40kpps,partial=15kpps"
    done = run(
        QUIVER,
        "loadtest",
        "sweep",
        "--dut",
        device,
        "--sizes",
        "64,65,124,128,129",
        "-d",
        "0.5",
        "--speed",
        "40m",
        "--session",
        file,
        *CALM,
    )
    (test,) = json.loads(file.read_text())["tests"]
    with true_or_disturbed(file):
        assert test["verdict"]["bound"] == "cache-line"
        named = [int(size) for size in re.findall(r"frames of (\d+) bytes", "; ".join(test["verdict"]["evidence"]))]
        assert named == [65, 124], test["verdict"]
        assert "Dips, 3 times again: bound by partial cache lines" in done.stdout


def test_a_run_says_what_held_it_back_and_how_the_router_was_run():
    said = run(QUIVER, "loadtest", "run", "--dut", "quiver:card=20kpps", "-m", "100kpps", "-d", "0.5", *CALM).stdout
    assert "Device quiver:card=20000pps" in said
    assert "Device under test: 1 worker, 2 receive queues, receive mode polling" in said
    assert "Verdict: NIC- or PCIe-bound: worker 0: " in said


@pytest.mark.parametrize(
    "device, wrong",
    [
        ("quiver:speed=1", "card, line and work"),
        ("quiver:work=0", "clocks, 1 to"),
        ("quiver:card=10g", "packets a second"),
    ],
)
def test_what_cannot_be_planted_is_refused(device, wrong):
    done = run(QUIVER, "loadtest", "run", "--dut", device, check=False)
    assert done.returncode != 0 and wrong in done.stderr, done.stderr
