"""How tests end: by a signal, and what they then say; and which files they write over."""

import json
import pathlib
import re
import signal
import subprocess
import time

import pytest

from lab import QUIVER, run, wait_until


def started(*words, **more):
    """A load tester that has begun to work."""
    process = subprocess.Popen(
        [QUIVER, "loadtest", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    )

    def works():
        assert process.poll() is None, process.communicate()
        tasks = pathlib.Path(f"/proc/{process.pid}/task").iterdir()
        return any((task / "comm").read_text().strip() == "loadtest_0" for task in tasks)

    wait_until(works, "its workers are there", 20)
    time.sleep(1)
    return process


LONG = {
    "run": ("-m", "1kpps", "-d", "600"),
    "ramp": ("-wd", "10", "-rd", "580", "-hd", "10", "--others", "100"),
    "matrix": ("-d", "75"),
    "saturate": ("-d", "150"),
    "sweep": ("-d", "30"),
    "soak": ("-m", "1kpps", "-d", "10m"),
    "search": ("--trial", "30", "--duration-sum", "300"),
}


@pytest.mark.parametrize("method", LONG)
def test_an_interrupted_test_says_so_and_how_long_it_was(tmp_path, method):
    more = (
        ("-o", tmp_path)
        if method == "matrix"
        else ("--session", tmp_path / "session.json")
        if method != "run"
        else ("-o", tmp_path / "session.json")
    )
    more += ("-o", tmp_path / "ramp.json") if method == "ramp" else ()
    process = started(method, "--dut", "reference:", "--speed", "1m", *LONG[method], *more)
    process.send_signal(signal.SIGINT)
    said, wrong = process.communicate(timeout=60)
    # As a shell says of what ^C ended.
    assert process.returncode == 130, (said, wrong)
    text = said + wrong
    assert re.search(
        r"interrupted after [\d.]+ s" if method == "search" else r"interrupted after [\d.]+ of 600 s", text
    ), text
    # What was not seen by then is not said not to be.
    assert "never" not in text and "NDR       none" not in text, text
    session = json.loads((tmp_path / ("report.json" if method == "matrix" else "session.json")).read_text())
    if method == "run":
        assert (session["ended"], session["planned_seconds"]) == ("interrupt", 600)
    else:
        assert session["tests"][0]["interrupted"].startswith("interrupted after ")
    if method == "ramp":
        assert text.count("not until it ended") == 2


@pytest.mark.slow
@pytest.mark.parametrize("method", LONG)
def test_a_device_that_ends_fails_the_test(tmp_path, method):
    more = ("-o", tmp_path) if method == "matrix" else ()
    ports = ("--port", "null", "--port", "null", "--speed", "1m")
    done = run(QUIVER, "loadtest", method, "--dut", "exec:sleep 4", *ports, *LONG[method], *more, check=False)
    text = done.stdout + done.stderr
    assert done.returncode == 1 and "sleep 4" in text, text


def test_a_terminated_test_ends_as_shells_say_it():
    process = started("run", "--dut", "null", "-d", "600")
    process.terminate()
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 143 and "of 600 s" in said


def test_no_file_is_written_over_that_is_not_our_own(tmp_path):
    notes = tmp_path / "notes.txt"
    notes.write_text("a year of work\n")
    short = ("--dut", "null", "--speed", "1m")
    for words in (
        ("run", *short, "-o", notes),
        ("ramp", *short, "-o", notes),
        ("ramp", *short, "--session", notes),
        ("saturate", *short, "--session", notes),
        ("sweep", *short, "--html", notes),
        ("search", *short, "--html", notes),
        ("soak", *short, "--session", notes),
    ):
        # At once: a test of an hour is not for nothing.
        begun = time.monotonic()
        done = run(QUIVER, "loadtest", *words, check=False)
        assert done.returncode == 1 and f"{notes}: it is there, and the load tester did not write it" in done.stderr, (
            words,
            done.stderr,
        )
        assert time.monotonic() - begun < 20
    page = tmp_path / "report.html"
    page.write_text("<html>somebody's</html>")
    done = run(QUIVER, "loadtest", "matrix", *short, "-o", tmp_path, check=False)
    assert done.returncode == 1 and f"{page}: it is there" in done.stderr and not (tmp_path / "report.json").exists()
    assert notes.read_text() == "a year of work\n" and page.read_text() == "<html>somebody's</html>"
    done = run(QUIVER, "loadtest", "run", *short, "-o", tmp_path / "nowhere" / "a.json", check=False)
    assert done.returncode == 1 and "there is no directory" in done.stderr


@pytest.mark.slow
def test_our_own_files_and_those_that_one_insists_on_are_written_over(tmp_path):
    short = ("--dut", "reference:", "--speed", "1m")
    session, page, figures, ramp = (
        tmp_path / name for name in ("session.json", "report.html", "run.json", "ramp.json")
    )
    for _ in range(2):
        run(
            QUIVER,
            "loadtest",
            "saturate",
            *short,
            "--rates",
            "1kpps",
            "-d",
            "0.1",
            "--session",
            session,
            "--html",
            page,
        )
        run(QUIVER, "loadtest", "run", *short, "-d", "0.1", "-o", figures)
        run(QUIVER, "loadtest", "ramp", *short, "-wd", "0.1", "-rd", "0.2", "-hd", "0.1", "-o", ramp)
        run(QUIVER, "loadtest", "report", session, "-o", page)
    # A page may take an old page's place, or that of a session, for both are ours; not that of a ramp by T-Rex's
    # script.
    theirs = tmp_path / "theirs.json"
    theirs.write_text('{"vars": {"profile_file": "imix.py"}, "stats": {}}')
    done = run(QUIVER, "loadtest", "report", session, "-o", theirs, check=False)
    assert done.returncode == 1 and "or '--force'" in done.stderr
    run(QUIVER, "loadtest", "report", session, "-o", theirs, "--force")
    assert theirs.read_text().startswith("<!DOCTYPE html>")
    (tmp_path / "empty").touch()
    run(QUIVER, "loadtest", "report", session, "-o", tmp_path / "empty")
    run(QUIVER, "loadtest", "report", session, "-o", "/dev/null")
