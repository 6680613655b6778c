"""The operator's desk: a person at a terminal, batches, completion in shells.

A `Terminal` is a pseudo terminal in which a client runs; what a test presses are keys,
what it expects are the characters that a person would see.
"""

import fcntl
import json
import os
import pty
import select
import shutil
import signal
import socket
import struct
import subprocess
import termios
import time

import pytest

from lab import QUIVER, run

PROMPT = "quiver# "
MORE = "-- more --"
# VPP's own client, where there is one: what it sends is also in crates/control's tests, byte by byte.
VPPCTL = os.environ.get("VPPCTL") or shutil.which("vppctl")


class Terminal:
    """A client at a terminal of some type and size."""

    def __init__(self, *command, term="dumb", columns=80, rows=24, name=None):
        self.parent, self.tty = pty.openpty()
        self.resize(columns, rows)
        self.before = termios.tcgetattr(self.tty)
        self.seen = ""
        self.process = subprocess.Popen(
            [name or command[0], *map(str, command[1:])],
            executable=command[0],
            stdin=self.tty,
            stdout=self.tty,
            stderr=self.tty,
            start_new_session=True,
            env=os.environ | {"TERM": term},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.parent)
        os.close(self.tty)

    def resize(self, columns, rows):
        """The window changes; the kernel signals it to the program."""
        fcntl.ioctl(self.parent, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys):
        os.write(self.parent, keys.encode())

    def expect(self, text, seconds=10):
        """Waits until the text is seen; gives what was seen up to and with it."""
        deadline = time.monotonic() + seconds
        while text not in self.seen:
            left = deadline - time.monotonic()
            ready = left > 0 and select.select([self.parent], [], [], left)[0]
            assert ready, f"timed out waiting for {text!r}; seen: {self.seen!r}"
            # A client that leaves the terminal its output processing makes CR LF of our LF.
            self.seen = (self.seen + os.read(self.parent, 65536).decode()).replace("\r\r\n", "\r\n")
        end = self.seen.index(text) + len(text)
        seen, self.seen = self.seen[:end], self.seen[end:]
        return seen

    def answer(self, line):
        """Enters a line; gives what is printed up to the next prompt."""
        self.press(f"{line}\r")
        self.expect(f"{line}\r\n")
        return self.expect(PROMPT).removesuffix(PROMPT)


@pytest.fixture
def router(lab):
    """A router with some interfaces."""
    return lab.router("create null interface name n0\ncreate null interface name n1\ncreate null interface name wan\n")


def desk(router, **options):
    return Terminal(QUIVER, "cli", "--socket", router.socket, **options)


def clients():
    """The programs that a person may sit at, as words before the socket."""
    yield pytest.param((QUIVER, "cli"), id="quiver")
    if VPPCTL:
        yield pytest.param((VPPCTL,), id="vppctl")


@pytest.mark.parametrize("client", clients())
def test_a_person_completes_asks_and_searches_with_either_client(router, client):
    with Terminal(*client, "-s", router.socket) as terminal:
        terminal.expect(PROMPT)
        # One candidate; what several share; a list; a value that the router knows.
        terminal.press("set int sta\t")
        terminal.expect("set int state ")
        terminal.press("\t")
        terminal.expect("\x07")
        terminal.press("\t")
        terminal.expect("n0   n1   wan\r\n")
        terminal.expect("set int state ")
        terminal.press("w\t")
        terminal.expect("wan ")
        terminal.press("?")
        shown = terminal.expect(f"{PROMPT}set int state wan ")
        assert "  down\r\n" in shown and "  up\r\n" in shown, shown
        terminal.press("up\r")
        terminal.expect(PROMPT)
        assert "wan (up):" in terminal.answer("show interface address wan")
        # A search back, carried out.
        terminal.press("\x12state\r")
        terminal.expect("set int state wan up\r\n")
        terminal.expect(PROMPT)
        assert terminal.answer("show history").splitlines()[0] == "    1  set int state wan up"
        assert "did you mean 'interface'?" in terminal.answer("show intreface")
        terminal.press("quit\r")
        assert terminal.process.wait(timeout=30) == 0
    assert router.interface("wan")["state"] == "up"


def test_pages_follow_the_window(router):
    router.batch("".join(f"ip route add 16.0.{third}.0/24 via drop\n" for third in range(100)))
    with desk(router, rows=10) as terminal:
        terminal.expect(PROMPT)
        terminal.press("show ip fib\r")
        first = terminal.expect(MORE)
        assert first.count("\n") == 10  # the command's own line, and nine of the table
        terminal.press("\r")
        assert terminal.expect(MORE).count("\n") == 1
        terminal.press(" ")
        assert terminal.expect(MORE).count("\n") == 9
        terminal.resize(80, 30)
        # It has grown by twenty rows, which are filled.
        assert terminal.expect(MORE).count("\n") == 20
        terminal.press("q")
        rest = terminal.expect(PROMPT)
        assert "16.0." not in rest
        assert "Terminal height: 30" in terminal.answer("show terminal")
        terminal.press("set terminal pager off\r")
        terminal.expect(PROMPT)
        assert "16.0.99.0/24" in terminal.answer("show ip fib")


def test_interrupt_gives_up_a_line_and_the_session_goes_on(router):
    with desk(router) as terminal:
        terminal.expect(PROMPT)
        terminal.press("set interface state n0 up\x03")
        terminal.expect(f"^C\r\n{PROMPT}")
        assert "quiver v" in terminal.answer("show version")
    assert router.interface("n0")["state"] == "down"


def test_colours_are_for_terminals_that_have_them(router):
    with desk(router, term="xterm") as terminal:
        terminal.expect("\x1b[1mquiver# \x1b[0m")
        terminal.press("bogus\r")
        terminal.expect("\x1b[31munknown input 'bogus'")
    with desk(router, term="dumb") as terminal:
        terminal.expect(PROMPT)
        assert "\x1b" not in terminal.answer("bogus")
    piped = run(QUIVER, "cli", "--socket", router.socket, "bogus", check=False)
    assert "\x1b" not in piped.stdout + piped.stderr


@pytest.mark.parametrize("end", ["quit", "end of input", signal.SIGTERM, signal.SIGHUP])
def test_the_terminal_is_given_back_as_it_was(router, end):
    with desk(router) as terminal:
        terminal.expect(PROMPT)
        assert termios.tcgetattr(terminal.tty) != terminal.before, "keys are not sent one by one"
        if isinstance(end, signal.Signals):
            terminal.process.send_signal(end)
        else:
            terminal.press({"quit": "quit\r", "end of input": "\x04"}[end])
        assert terminal.process.wait(timeout=30) == (128 + end if isinstance(end, signal.Signals) else 0)
        assert termios.tcgetattr(terminal.tty) == terminal.before


def test_a_batch_names_the_file_and_line_that_fail(router, tmp_path):
    file = tmp_path / "commands"
    file.write_text("show version\n\nbogus\nshow interface address n0\nset int state nowhere up\n")
    base = (QUIVER, "cli", "--socket", router.socket)
    stops = run(*base, "-f", file, check=False)
    assert stops.returncode == 1
    assert stops.stderr.startswith(f"{file}:3: unknown input 'bogus'\n")
    assert "n0" not in stops.stdout
    goes_on = run(*base, "-f", file, "--keep-going", check=False)
    assert goes_on.returncode == 1
    assert "n0 (dn):" in goes_on.stdout
    assert f"{file}:3: " in goes_on.stderr and f"{file}:5: set interface state: " in goes_on.stderr
    nested = run(*base, "exec", file, check=False)
    assert (nested.returncode, nested.stdout.count("quiver v")) == (1, 1)
    assert nested.stderr.startswith(f"{file}:3: ")


def test_json_comes_from_batches_too(router):
    done = subprocess.run(
        [QUIVER, "cli", "--socket", router.socket, "--json"],
        input="show version\nshow interface address n0\n",
        capture_output=True,
        text=True,
        check=True,
    )
    version, addresses = map(json.loads, done.stdout.splitlines())
    assert version["version"] and addresses["interfaces"][0]["name"] == "n0"


def test_the_program_is_vppctl_under_that_name(router, tmp_path):
    vppctl = tmp_path / "vppctl"
    vppctl.symlink_to(QUIVER)
    shown = run(vppctl, "-s", router.socket, "show", "interface", "address", "n0")
    assert shown.stdout == "n0 (dn):\n"
    # As with VPP's, messages are output and the exit code says nothing of the command.
    failed = run(vppctl, "-s", router.socket, "show", "bogus")
    assert failed.stdout.startswith("show: unknown input 'bogus'\n") and failed.stderr == ""
    batch = subprocess.run(
        [vppctl, "-s", router.socket], input="bogus\nshow version\n", capture_output=True, text=True, check=True
    )
    assert batch.stdout.index("bogus") < batch.stdout.index("quiver v")
    # Nobody reads the messages.
    reader, writer = os.pipe()
    os.close(reader)
    for words, lines in ((["bogus"], None), ([], "bogus\nbogus\n")):
        unread = subprocess.run(
            [vppctl, "-s", router.socket, *words],
            input=lines,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        assert (unread.returncode, unread.stderr) == (0, "")
    os.close(writer)
    # A client that leaves before it has read all is nothing to tell an operator of.
    for _ in range(20):
        leaver = socket.socket(socket.AF_UNIX)
        leaver.connect(str(router.socket))
        leaver.send(b"show node\n" * 8)
        leaver.close()
    assert "quiver v" in run(vppctl, "-s", router.socket, "show", "version").stdout
    assert "CLI connection" not in router.cli("show logging")
    nobody = run(vppctl, "-s", tmp_path / "nobody.sock", "show", "version", check=False)
    assert nobody.returncode == 1 and "nobody.sock" in nobody.stderr
    with Terminal(QUIVER, "-s", router.socket, name=str(vppctl)) as terminal:
        terminal.expect(PROMPT)
        assert "n1 (dn):" in terminal.answer("sh int addr")


def complete(tmp_path, line, program="quiver"):
    """What bash offers for a line, the cursor at its end."""
    names = tmp_path / "bin"
    names.mkdir(exist_ok=True)
    for name in ("quiver", "vppctl"):
        if not (names / name).exists():
            (names / name).symlink_to(QUIVER)
    words = line.split(" ")
    current, previous = words[-1], words[-2] if len(words) > 1 else ""
    script = f"""
        source <(quiver completion bash)
        COMP_LINE={line!r} COMP_POINT={len(line)} COMP_WORDS=({line} {"''" if current == "" else ""})
        COMP_CWORD={len(words) - 1}
        function=$(complete -p {program} | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        $function {program} {current!r} {previous!r}
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    path = f"{names}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=False, env=os.environ | {"PATH": path}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_bash_completes_options_and_the_routers_commands(router, tmp_path):
    assert complete(tmp_path, "quiver c") == ["cli", "completion"]
    assert "--keep-going" in complete(tmp_path, "quiver cli --")
    socket = f"quiver cli --socket {router.socket}"
    assert complete(tmp_path, f"{socket} show inter") == ["interface"]
    # What only a running router knows; without one, the grammar is enough.
    assert complete(tmp_path, f"{socket} --json set int state ") == ["n0", "n1", "wan"]
    assert complete(tmp_path, f"quiver cli -s {tmp_path}/none set int state n0 ") == ["down", "up"]
    assert complete(tmp_path, f"quiver cli -s {tmp_path}/none set int state ") == []
    assert complete(tmp_path, f"vppctl -s {router.socket} show int w", "vppctl") == ["wan"]


def test_plain_socket_clients_need_no_terminal(router):
    """What `nc -U` sends and gets: lines, after the negotiation that `vppctl` needs."""
    with socket.socket(socket.AF_UNIX) as plain:
        plain.connect(str(router.socket))
        plain.sendall(b"echo one\nshow interface address n0\n")
        plain.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: plain.recv(4096), b""))
    assert answer[30:] == b"one\nn0 (dn):\n"
