"""The load tester on a machine that others hold busy: it tells true figures, or says that it cannot, and why."""

import json
import os
import re
import subprocess
import sys

import pytest

from lab import QUIVER, run

WHY = re.compile(r"\d+ % of core \d+ was used by others")


@pytest.fixture(scope="module", autouse=True)
def busy():
    """A loop for each core, and one more."""
    loops = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(len(os.sched_getaffinity(0)) + 1)
    ]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


def loadtest(method, *words):
    return run(QUIVER, "loadtest", method, *words, timeout=200)


def measured(tmp_path, method, *words):
    """What a method printed, on both ways, and what it kept."""
    file = tmp_path / "session.json"
    more = ("-o", tmp_path / "ramp.json") if method == "ramp" else ()
    done = loadtest(method, *words, *more, "--session", file, "--html", tmp_path / "page.html")
    session = json.loads(file.read_text())
    # It comes first, in all of them.
    said = done.stderr if method == "ramp" else done.stdout
    assert said.startswith("Others used "), said
    assert (
        list(session)[:2] == ["format", "others"] and max(core["percent"] for core in session["others"]["during"]) > 15
    )
    assert session["others"]["before"], session["others"]
    page = (tmp_path / "page.html").read_text()
    assert page.index("Others used ") < page.index("<table>")
    (test,) = session["tests"]
    return said, test


def is_withheld(verdict):
    return verdict["bound"] == "no-result" and bool(WHY.search("; ".join(verdict["evidence"])))


@pytest.mark.slow
def test_a_run_at_its_limit_has_no_verdict():
    done = loadtest("run", "--dut", "quiver", "-p", "bench", "-m", "max", "-d", "2", "-o", "-")
    report = json.loads(done.stdout)
    assert list(report)[:2] == ["format", "others"] and report["others"]["limit"] == 10
    assert is_withheld(report["verdict"]), report["verdict"]
    said = loadtest("run", "--dut", "quiver", "-p", "bench", "-m", "max", "-d", "1").stdout
    assert said.startswith("Others used ") and re.search(rf"^Verdict: no result: {WHY.pattern}", said, re.MULTILINE), (
        said
    )
    # Who does not mind is told what the figures say.
    assert not is_withheld(
        json.loads(loadtest("run", "--dut", "quiver", "-m", "max", "-d", "1", "--others", "100", "-o", "-").stdout)[
            "verdict"
        ]
    )


def test_that_all_came_that_was_sent_is_true_on_a_busy_machine_too():
    report = json.loads(
        loadtest("run", "--dut", "reference:", "-p", "bench", "-m", "500pps", "-d", "1", "-o", "-").stdout
    )
    (port,) = report["ports"]
    if port["lost_packets"] == 0 and report["kept_rate"]:
        assert report["verdict"]["bound"] == "nothing", report["verdict"]
    else:
        assert is_withheld(report["verdict"]), report["verdict"]


@pytest.mark.parametrize(
    "device, speed, true", [("quiver", "20g", None), ("reference:capacity=12kpps,queue=100", "20m", (11e3, 13e3))]
)
def test_a_search_says_no_rate_of_a_starved_generator(tmp_path, device, speed, true):
    said, test = measured(
        tmp_path, "search", "--dut", device, "-p", "bench", "--direction", "uni", "--speed", speed, "--trial", "0.5",
        "--duration-sum", "1", "--width", "5",
        "--back-to-back", "2", "--recovery", "1",
    )  # fmt: skip
    assert "0 trials" not in said
    assert [found["goal"]["name"] for found in test["found"]] == ["NDR", "PDR"]
    for found in test["found"]:
        if found["lower"] is None:
            assert found["no_result"] and found["upper"] is None and found["conditional_throughput"] is None, found
            assert re.search(rf"^{found['goal']['name']} +no result: ", said, re.MULTILINE), said
        else:
            assert true and true[0] < found["lower"] < true[1], found
    if test["no_result"]:
        assert WHY.search(test["no_result"]) and "The search was given up" in said


def test_a_ramp_says_no_limit_that_is_the_machines(tmp_path):
    said, test = measured(
        tmp_path, "ramp", "--dut", "reference:capacity=100kpps,queue=2000", "-p", "bench", "--speed", "400m",
        "--direction", "uni", "--interval", "0.2",
        "-wd", "0.4", "-rd", "2", "-hd", "0.4",
    )  # fmt: skip
    if test["no_result"]:
        assert test["overload"] is None and test["first_loss"] is None
        assert said.count("no result: ") >= 2 and "never" not in said, said
    else:
        assert test["total"]["kept_rate"] or 90e3 < test["overload"]["sent_pps"] < 200e3


@pytest.mark.slow
def test_a_sweep_names_no_noise(tmp_path):
    said, test = measured(tmp_path, "sweep", "--dut", "quiver", "--sizes", "64,65,128,256,512", "-d", "0.5")
    assert test["verdict"]["bound"] != "cache-line" and "partial cache lines" not in said, said
    for step in test["steps"]:
        whole = step["trial"]["lost_packets"] == 0 and step["trial"]["kept_rate"]
        assert whole or is_withheld(step["trial"]["verdict"]), step["trial"]["verdict"]


@pytest.mark.slow
def test_one_core_has_no_most_and_a_soak_no_verdict(tmp_path):
    said, test = measured(tmp_path, "saturate", "--dut", "quiver", "--rates", "1kpps,max", "-d", "1")
    assert re.search(rf"^Max PPS per core: no result: {WHY.pattern}", said, re.MULTILINE), said
    assert is_withheld(test["steps"][1]["trial"]["verdict"])
    said, test = measured(tmp_path, "soak", "--dut", "quiver", "-m", "max", "-d", "1")
    assert is_withheld(test["total"]["verdict"]) and "Verdict: no result: " in said


@pytest.mark.slow
def test_a_table_leaves_no_device_out(tmp_path):
    done = loadtest("matrix", "--dut", "quiver,reference:", "-d", "0.5", "-o", tmp_path)
    session = json.loads((tmp_path / "report.json").read_text())
    assert "left out" not in done.stdout and [test["device"] for test in session["tests"]] == ["quiver", "reference"]
    assert done.stdout.count("Others used ") == 2
    for test in session["tests"]:
        assert len(test["rows"]) == 8
        for row in test["rows"]:
            trial = row["trial"]
            # Of ten gigabits a second small packets are more than half a core makes.
            assert (trial["lost_packets"] == 0 and trial["kept_rate"]) or is_withheld(trial["verdict"]), (
                row["name"],
                trial["verdict"],
            )
