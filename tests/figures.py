"""Figures of the daemon, measured on the release build (`make figures`, as root).

Start to first forwarded packet: a host sends a datagram every 200 us to another one from
before `quiver run` is started; the clock runs from then until the first arrives. Routers
and hosts are joined by veth and af_packet; the far host is found by ARP, as always.

Idle CPU and memory: after traffic, over five seconds without any.
"""

import os
import pathlib
import re
import statistics
import sys
import threading
import time
from socket import SOCK_DGRAM

import lab as bench

RELEASE = bench.ROOT / "target/release/quiver"
STARTS = 10
IDLE_SECONDS = 5
PORT = 4000


class WiredRouter:
    """Two hosts on wires, and a router that has to be started between them."""

    COMMANDS = """
create host-interface to-e0 name e0 hw-addr 02:00:00:00:00:01
create host-interface to-e1 name e1
set interface ip address e0 10.0.1.1/24
set interface ip address e1 10.0.2.1/24
set interface state e0 up
set interface state e1 up
"""

    def __init__(self, lab):
        self.lab = lab
        self.middle = lab.host("router")
        self.hosts = [lab.host(name) for name in ("h1", "h2")]
        for number, host in enumerate(self.hosts, 1):
            peer = ("peer", "name", f"to-e{number - 1}", "netns", self.middle.namespace)
            host.ip("link", "add", "eth0", "type", "veth", *peer)
            host.ip("address", "add", f"10.0.{number}.2/24", "dev", "eth0")
            host.ip("link", "set", "eth0", "up")
            host.ip("route", "add", "default", "via", f"10.0.{number}.1")
            self.middle.ip("link", "set", f"to-e{number - 1}", "up")
        # The sender must not wait for its own ARP, which it repeats once a second only.
        self.hosts[0].ip("neigh", "add", "10.0.1.1", "lladdr", "02:00:00:00:00:01", "dev", "eth0")
        self.directory = pathlib.Path(lab.stack.enter_context(temporary_directory()))
        (self.directory / "commands").write_text(self.COMMANDS)
        self.config = self.directory / "startup.conf"
        self.config.write_text(
            f"unix {{ nodaemon cli-listen {self.directory}/cli.sock exec {self.directory}/commands "
            f"log {self.directory}/log }}\n"
        )

    def start(self):
        return self.middle.start(RELEASE, "run", "--config", self.config)


def temporary_directory():
    import tempfile

    return tempfile.TemporaryDirectory(prefix="quiver-figures-")


def start_to_first_packet():
    """Milliseconds from starting the process to the first datagram at the far host."""
    lab = bench.Lab()
    try:
        wired = WiredRouter(lab)
        receiver = wired.hosts[1].socket(SOCK_DGRAM, ("10.0.2.2", PORT))
        sender = wired.hosts[0].socket(SOCK_DGRAM)
        stop = threading.Event()

        def send():
            while not stop.is_set():
                sender.sendto(b"first?", ("10.0.2.2", PORT))
                time.sleep(0.0002)

        sending = threading.Thread(target=send)
        sending.start()
        try:
            begun = time.monotonic()
            process = wired.start()
            receiver.recv(100)
            passed = time.monotonic() - begun
        finally:
            stop.set()
            sending.join()
        process.terminate()
        assert process.wait(10) == 0
        return passed * 1000
    finally:
        lab.tear_down()


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid, what):
    """Megabytes, by the name that /proc/PID/status gives them."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"^{what}:\s+(\d+) kB", status, re.M).group(1)) / 1024


def at_rest():
    """Idle CPU in percent of a core; resident megabytes at start and after traffic."""
    lab = bench.Lab()
    try:
        wired = WiredRouter(lab)
        process = wired.start()
        bench.wait_until(lambda: wired.hosts[0].reaches("10.0.2.2", count=1, wait=1), "it forwards", seconds=10)
        fresh = memory(process.pid, "VmRSS")
        server = wired.hosts[1].start("iperf3", "--server", "--one-off", stdout=-3)
        bench.wait_until(lambda: ":5201" in wired.hosts[1].run("ss", "-Hltn").stdout, "iperf3 listens")
        wired.hosts[0].run("iperf3", "--client", "10.0.2.2", "--time", 2)
        server.wait(10)
        time.sleep(1)
        before = cpu_seconds(process.pid)
        time.sleep(IDLE_SECONDS)
        idle = (cpu_seconds(process.pid) - before) / IDLE_SECONDS * 100
        used = memory(process.pid, "VmRSS")
        process.terminate()
        assert process.wait(10) == 0
        return idle, fresh, used
    finally:
        lab.tear_down()


def main():
    if os.geteuid() != 0:
        sys.exit("Namespaces need root: sudo make figures")
    starts = [start_to_first_packet() for _ in range(STARTS)]
    idle, fresh, used = at_rest()
    print(
        f"start to first forwarded packet: {statistics.median(starts):.1f} ms "
        f"({min(starts):.1f} to {max(starts):.1f}, {STARTS} starts)"
    )
    print(f"idle CPU: {idle:.2f} % of a core (over {IDLE_SECONDS} s)")
    print(f"resident memory: {fresh:.1f} MB after start, {used:.1f} MB after traffic")


if __name__ == "__main__":
    main()
