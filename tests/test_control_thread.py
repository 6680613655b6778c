"""A command that takes long holds up nobody who only wants to look, and does not starve the watchdog.

A second client asks all the while. What is judged is how often it was answered while the command was at work, never how
fast: machines are busy with other things, too.
"""

import contextlib
import ctypes
import os
import socket
import subprocess
import threading
import time

import pytest

import second_client
from lab import HELD, QUIVER, CommandFailed, wait_until

# On a slow machine, too, in which a piece takes ten times as long as it should.
FEWEST_ANSWERS = 3

NETWORK = """
create null interface name n0
set interface state n0 up
set interface ip address n0 10.0.0.1/24
set interface ip address n0 2001:db8::1/64
"""


# ptrace(2), of one thread; and what waits for it.
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
ALL_THREADS = 0x40000000


@contextlib.contextmanager
def held(thread):
    """A thread does not run meanwhile; the others of its process do."""
    libc = ctypes.CDLL(None, use_errno=True)

    def trace(request):
        assert libc.ptrace(request, thread, None, None) == 0, os.strerror(ctypes.get_errno())

    trace(PTRACE_SEIZE)
    trace(PTRACE_INTERRUPT)
    os.waitpid(thread, ALL_THREADS)
    try:
        yield
    finally:
        trace(PTRACE_DETACH)


class BusyClient:
    """Asks again and again, each time on a connection of its own, until it is told to stop."""

    def __init__(self, router, question="show version"):
        self.router, self.question = router, question
        self.answers, self.failures, self.going = 0, [], True
        self.thread = threading.Thread(target=self.ask)

    def ask(self):
        while self.going:
            words = [QUIVER, "cli", "--socket", self.router.socket, self.question]
            done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120)
            if done.returncode:
                self.failures.append(done.stdout + done.stderr)
            self.answers += 1
            time.sleep(0.002)

    def __enter__(self):
        self.thread.start()
        wait_until(lambda: self.answers > 0, "the second client's first answer", 60)
        return self

    def __exit__(self, *_):
        self.going = False
        self.thread.join()


def watched(router, command):
    """Carries out a command. Returns the answers to another client meanwhile, and its line of 'show control'."""
    with BusyClient(router) as client:
        before = client.answers
        router.cli(command)
        # The one that was under way when the command began, or ended, does not count.
        during = client.answers - before - 1
        assert not client.failures
    works = {work["what"]: work for work in router.cli_json("show control")["longest"]}
    return during, works


def at_work_or_done(router, name):
    control = router.cli_json("show control")
    return control["doing"] or any(work["what"] == name for work in control["longest"])


@pytest.mark.alone
def test_who_looks_is_answered_while_another_changes(lab, tmp_path):
    router = lab.router(NETWORK)
    routes = tmp_path / "routes.txt"
    with open(routes, "w") as file:
        for number in range(300_000):
            file.write(f"{40 + (number >> 16)}.{number >> 8 & 255}.{number & 255}.0/24 via 10.0.0.2\n")
    configuration = tmp_path / "many.conf"
    stated = NETWORK + "".join(f"ip route add 80.{n >> 8}.{n & 255}.0/24 via 10.0.0.2 n0\n" for n in range(40_000))
    configuration.write_text(stated)
    long = {
        "ip route add": "ip route add count 200000 20.0.0.0/28 via 10.0.0.2",
        "ip route del": "ip route del count 200000 20.0.0.0/28",
        "ip route replace": "ip route replace count 10000 2001:db8:1::/64 via 2001:db8::2",
        "ip route load": f"ip route load {routes}",
        "set interface state": "set interface state n0 down",
        "load": f"load {configuration}",
        "save": f"save {tmp_path / 'saved.conf'}",
        "delete interface": "delete interface n0",
    }
    for name, command in long.items():
        during, works = watched(router, command)
        if works.get(name, {}).get("seconds", 0) < 0.2:
            continue  # done before anybody could have asked
        work = works[name]
        assert work["pieces"] > 3, (command, work)
        assert during >= FEWEST_ANSWERS, (command, work)


def test_what_changes_waits_its_turn_and_both_are_whole(lab):
    router = lab.router(NETWORK)
    first = threading.Thread(target=router.cli, args=("ip route add count 150000 20.0.0.0/28 via 10.0.0.2",))
    first.start()
    # Not long enough to be met on a fast machine, perhaps; then it is done, which is as good.
    wait_until(lambda: at_work_or_done(router, "ip route add"), "the first command", 60)
    # Of the same routes: in the middle of the first it would find some of them only.
    router.cli("ip route del count 150000 20.0.0.0/28")
    first.join()
    for gone in ("20.0.0.0/28", "20.36.159.0/28"):
        with pytest.raises(CommandFailed, match="no route"):
            router.cli(f"ip route del {gone}")


def test_a_reader_sees_some_of_what_is_at_work(lab):
    router = lab.router(NETWORK)
    work = threading.Thread(target=router.cli, args=("ip route add count 300000 20.0.0.0/28 via 10.0.0.2",))
    work.start()
    wait_until(lambda: at_work_or_done(router, "ip route add"), "the command", 60)
    doing = router.cli_json("show control")["doing"]
    work.join()
    assert doing is None or doing["what"] == "ip route add"
    done = {work["what"]: work for work in router.cli_json("show control")["longest"]}["ip route add"]
    assert done["pieces"] > 3 and done["longest_piece_seconds"] < done["seconds"]


def test_the_watchdog_is_fed_while_a_configuration_is_loaded(lab, tmp_path, monkeypatch):
    notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    path = str(tmp_path / "notify")
    notices.bind(path)
    notices.settimeout(60)
    monkeypatch.setenv("NOTIFY_SOCKET", path)
    monkeypatch.setenv("WATCHDOG_USEC", "20000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    router = lab.router(NETWORK)
    monkeypatch.delenv("NOTIFY_SOCKET")
    received, going = [], True

    def listen():
        while going:
            try:
                received.append((time.monotonic(), notices.recv(4096)))
            except TimeoutError:
                pass

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    begin = time.monotonic()
    router.cli("ip route add count 300000 20.0.0.0/28 via 10.0.0.2")
    end = time.monotonic()
    going = False
    signs = [at for at, notice in received if notice == b"WATCHDOG=1" and begin < at < end]
    assert len(signs) > 3, f"{len(signs)} signs of life in {end - begin:.1f} s"
    router.stop()
    listener.join(1)
    os.unlink(path)


@pytest.mark.slow
def test_a_control_thread_that_is_held_is_named_and_fails_the_second_client(lab):
    router = lab.router(NETWORK, no_second_client="its control thread is held on purpose")
    client = second_client.SecondClient(router)
    wait_until(lambda: client.answers > 1, "it is answered")
    client.check()
    work = threading.Thread(target=router.cli, args=("ip route add count 1000000 20.0.0.0/28 via 10.0.0.2",))
    work.start()
    wait_until(lambda: at_work_or_done(router, "ip route add"), "the command", 60)
    # The process's first thread is the one that owns the router.
    with held(router.process.pid):
        time.sleep(second_client.LONGEST_WAIT + 1.5)
        said = router.log_file.read_text()
        assert "control thread: 'ip route add' has held it for " in said and HELD in said
        with pytest.raises(AssertionError, match="a second client waited"):
            client.check()
    work.join()
    wait_until(lambda: "control thread: it answers again" in router.log(), "it answers again", 30)
    client.stop()
