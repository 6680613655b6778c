"""The load tester's console: typed at a terminal, and from a script."""

import itertools
import os
import re
import signal
import subprocess
import time

import pytest

from conftest import require
from lab import QUIVER, run, wait_until


_numbers = itertools.count(1)


def console(tmp_path, script, *words, check=True):
    file = tmp_path / "script"
    file.write_text(script)
    return run(QUIVER, "loadtest", "console", "--script", file, *words, check=check)


def blocks(text):
    """What was said to each command, in turn: (command, answer)."""
    return [
        (part.split("\n", 1)[0], part.split("\n", 1)[-1]) for part in re.split(r"^> ", text, flags=re.MULTILINE)[1:]
    ]


def row(stats, name):
    """The cells of a row: of each port, and of all."""
    (line,) = (line for line in stats.splitlines() if line.startswith(name + " "))
    return re.split(r"\s{2,}", line[len(name) :].strip())


def pps(text):
    """`2.5 kpps` as a number."""
    number, prefix = re.fullmatch(r"([\d.]+) ?([kM]?)pps", text).groups()
    return float(number) * {"": 1, "k": 1e3, "M": 1e6}[prefix]


@pytest.mark.alone
def test_the_session_of_the_document(tmp_path):
    """The words of the T-Rex users' first method, one after the other."""
    script = """
        start -f stl/udp_1pkt_simple.py -p 0 -m 1kpps
        wait 2.2
        stats
        pause
        wait 2.2
        stats
        resume
        update -m 20kpps
        wait 2.2
        stats
        update -m 100%
        wait 2.2
        stats
        stop
    """
    done = console(tmp_path, script, "--dut", "quiver", "--speed", "20m")
    said = blocks(done.stdout)
    assert [command for command, _ in said] == [line.strip() for line in script.strip().splitlines()]
    at_first, paused, faster, whole = (text for command, text in said if command == "stats")
    assert row(at_first, "state") == ["TRANSMITTING", "IDLE"] and row(at_first, "rate")[0] == "1kpps"
    assert row(at_first, "profile")[0] == "udp_1pkt_simple" and row(at_first, "link") == ["UP", "UP"]
    # What port 0 sends comes by port 1, and no more.
    assert pps(row(at_first, "Tx pps")[0]) == pytest.approx(1000, rel=0.2)
    assert pps(row(at_first, "Rx pps")[1]) == pytest.approx(1000, rel=0.2) and pps(row(at_first, "Rx pps")[0]) < 20
    assert row(paused, "state")[0] == "PAUSE" and pps(row(paused, "Tx pps")[0]) < 20
    for stats, due in ((faster, 20e3), (whole, 20e6 / 8 / 84)):
        # A machine with other things to do may send less than is due, and says so.
        is_behind = row(stats, "not sent")[0] != "0" and pps(row(stats, "Tx pps")[0]) < due
        assert pps(row(stats, "Tx pps")[0]) == pytest.approx(due, rel=0.2) or is_behind, stats
        assert float(row(stats, "Line Util.")[0].split()[0]) > (0.8 * due / 30e3 * 100 if not is_behind else 10), stats
    # Without errors, and its delay is known.
    assert row(whole, "lost") == ["0", "0", "0"]
    assert row(whole, "delay")[0].endswith(" us") and float(row(whole, "longest delay")[0].split()[0]) > 0
    assert re.search(r"^CPU, router tested +\d", whole, re.MULTILINE)
    sent, came, lost = re.search(
        r"port 0: (\d+) packets sent in [\d.]+ s, (\d+) came by port 1, (\d+) lost", said[-1][1]
    ).groups()
    assert int(lost) == 0 and int(sent) == int(came) > 10_000
    assert re.search(r"delay [\d.]+ us at least", said[-1][1])


def test_ports_are_steered_one_by_one(tmp_path):
    script = """
        # Two profiles at once.
        start -f bench -p 0 -m 2kpps
        start -f imix.py -p 1 -m 1kpps --packets 500
        streams
        start -f bench -p 0 1 -m 1kpps
    """
    done = console(tmp_path, script, "--dut", "reference:", check=False)
    assert (
        done.returncode == 1
        and "line 6: start -f bench -p 0 1 -m 1kpps: port 0 sends already: 'stop' it first, or '--force'" in done.stderr
    )
    # What was sent is told all the same.
    assert re.search(r"^port 0: \d+ packets sent", done.stdout, re.MULTILINE) and re.search(
        r"^port 1: ", done.stdout, re.MULTILINE
    )

    script = """
        start -f bench -p 1 -m 1kpps --packets 300
        start -f bench -p 0 -m 3kpps
        wait 1
        start -f bench -p 0 -m 1kpps -d 0.3 --force
        wait
        clear
        stats
        dut show version
    """
    done = console(tmp_path, script, "--dut", "reference:lose=10", check=False)
    # It ended by itself, when it had sent what it had to.
    assert re.search(
        r"port 1 stopped\nport 1: 300 packets sent in [\d.]+ s, 270 came by port 0, 30 lost", done.stdout
    ), done.stdout
    assert "port 0 stopped\n" in done.stdout
    (stats,) = (text for command, text in blocks(done.stdout) if command == "stats")
    assert row(stats, "state") == ["IDLE", "IDLE"]
    for name in ("opackets", "ipackets", "lost", "not sent"):
        assert row(stats, name) == ["0", "0", "0"], stats
    assert "the device under test is not in this process" in done.stderr


def test_a_test_that_is_over_is_shown_until_the_next(tmp_path):
    script = """
        start -f bench -p 0 -m 2kpps --packets 400
        wait
        streams
        stats
        start -f imix.py -p 1 -m 1kpps
        streams
        clear
        streams
    """
    done = console(tmp_path, script, "--dut", "reference:lose=10,delay=3ms")
    said = blocks(done.stdout)
    over, both, cleared = (text.splitlines() for command, text in said if command == "streams")
    assert over[0].split() == ["port", "stream", "wanted", "pps", "sent", "received", "lost", "state"]
    assert [line.split() for line in over[1:2]] == [["0", "stream-1", "2000", "400", "360", "40", "over"]], over
    (stats,) = (text for command, text in said if command == "stats")
    assert (
        row(stats, "state") == ["IDLE", "IDLE"]
        and row(stats, "profile") == ["bench", "-"]
        and row(stats, "rate") == ["2kpps", "-"]
    )
    assert row(stats, "opackets")[0] == "400" and row(stats, "lost")[0] == "40"
    assert float(row(stats, "delay")[0].split()[0]) >= 2990 and float(row(stats, "longest delay")[0].split()[0]) >= 3000
    assert both[1].endswith("over") and all(line.endswith("sending") for line in both[2:5]), both
    assert all(line.endswith("sending") for line in cleared[1:4]) and cleared[4].startswith("port 1: ")


def test_rates_go_up_and_down_by_parts(tmp_path):
    script = """
        start -f bench -m 4kpps --total
        update -m +50%
        update -m -1kpps -p 1
        stats
        dut show interface
        update -m -2mpps
    """
    done = console(tmp_path, script, "--dut", "quiver", "--speed", "1m", check=False)
    said = dict(blocks(done.stdout))
    # 1 Mbit/s are 1488 packets of 64 bytes a second.
    assert said["start -f bench -m 4kpps --total"].strip() == "bench by ports 0 and 1 at 2kpps"
    assert "2.744kpps" in said["update -m +50%"] and "1.744kpps" in said["update -m -1kpps -p 1"]
    assert row(said["stats"], "rate") == ["2.744kpps", "1.744kpps"]
    assert re.search(r"^e0 +\d", said["dut show interface"], re.MULTILINE)
    assert done.returncode == 1 and "port 0 sends no more than that" in done.stderr


@pytest.mark.parametrize(
    "line, wrong",
    [
        ("fly", "unrecognized subcommand 'fly'"),
        ("start", "--file <NAME|FILE>"),
        ("start -f nonsense", "no such file"),
        ("start -f bench -m fast", "'fast' is not a rate"),
        ("start -f bench -p 7", "there is no port 7: there are 0 to 1"),
        ("stop", "nothing is sent: 'start' something first"),
        ("pause -p 1", "port 1 sends nothing: 'start' it first"),
        ("x" * 5000, "a line of 4096 bytes or more is no command"),
    ],
)
def test_what_cannot_be_is_refused_in_words(tmp_path, line, wrong):
    done = console(tmp_path, f"# A remark.\n\n{line}\n", "--dut", "null", check=False)
    assert done.returncode == 1 and wrong in done.stderr and "line 3: " in done.stderr, done.stderr


def test_commands_come_by_a_pipe_and_help_is_there():
    done = subprocess.run(
        [QUIVER, "loadtest", "console", "--dut", "null"],
        input="help\nstart --help\nquit\nfly\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for word in ("start", "stop", "pause", "resume", "update", "stats", "streams", "clear", "wait", "quit"):
        assert re.search(rf"^  {word} ", done.stdout, re.MULTILINE), word
    assert "--mult <RATE>" in done.stdout


def test_an_interrupted_script_tells_what_was_sent():
    process = subprocess.Popen(
        [QUIVER, "loadtest", "console", "--dut", "reference:"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdin.write("start -f bench -m 2kpps\n")
    process.stdin.flush()
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    said, wrong = process.communicate(timeout=20)
    assert process.returncode == 0, wrong
    assert re.search(r"^port 0: \d{3,} packets sent in .* 0 lost", said, re.MULTILINE), said


class Terminal:
    """A terminal of its own, of a size, in which a program runs."""

    def __init__(self, *words, size=(110, 44)):
        self.name = f"quiver-console-{os.getpid()}-{next(_numbers)}"
        command = " ".join(map(str, words))
        self.tmux("new-session", "-d", "-x", size[0], "-y", size[1], f"{command}; echo ended with $?; sleep 60")

    def tmux(self, *words):
        return run("tmux", "-L", self.name, "-f", "/dev/null", *words).stdout

    def type(self, text, *keys):
        self.tmux("send-keys", "-l", "--", text)
        self.tmux("send-keys", *(keys or ("Enter",)))

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def see(self, pattern, seconds=10):
        seen = []

        def look():
            seen[:] = [self.screen()]
            return re.search(pattern, seen[0], re.MULTILINE)

        try:
            return wait_until(look, f"the screen has /{pattern}/", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}:\n{seen[0]}") from None

    def end(self):
        run("tmux", "-L", self.name, "kill-server", check=False)


@pytest.fixture
def terminal():
    require("tmux")
    terminal = Terminal(QUIVER, "loadtest", "console", "--dut", "reference:", "--speed", "100m", "--interval", "0.5")
    yield terminal
    terminal.end()


def test_what_ports_do_is_seen_while_it_is_typed(terminal):
    terminal.see(r"^Port +0 +1 +total")
    terminal.see(r"^state +IDLE +IDLE")
    # TAB completes, and what is mistyped is told.
    terminal.type("sta", "Tab")
    terminal.see(r"start  stats")
    terminal.type("rt", "Tab")
    terminal.type("-f bench -p 0 -m 3kpps")
    terminal.see(r"bench by port 0 at 3kpps")
    terminal.see(r"^state +TRANSMITTING +IDLE")
    terminal.see(r"^Tx pps +[23]\.?\d* kpps +0 pps")
    terminal.see(r"^Rx pps +0 pps +[23]\.?\d* kpps")
    terminal.see(r"sent, up to [23]\.?\d* kpps")
    terminal.type("fly")
    terminal.see(r"unrecognized subcommand 'fly'")
    # The line before last, changed.
    terminal.tmux("send-keys", "Up", "Up")
    terminal.see(r"^> start -f bench -p 0 -m 3kpps")
    terminal.tmux("send-keys", "C-c")
    terminal.type("pause")
    terminal.see(r"^state +PAUSE +IDLE")
    terminal.type("stop")
    terminal.see(r"^port 0: \d{3,} packets sent in .* 0 lost")
    terminal.type("quit")
    terminal.see(r"ended with 0")


def test_a_small_terminal_is_enough(terminal):
    terminal.tmux("resize-window", "-x", "40", "-y", "8")
    terminal.type("start -f bench -p 0 -m 1kpps")
    terminal.see(r"bench by port 0")
    terminal.tmux("send-keys", "C-c")
    terminal.see(r"ended with 0")
    # What came of it stays.
    terminal.see(r"port 0: \d+ packets sent")
