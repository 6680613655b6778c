"""Figures of pairs, measured on the release build (`make figures`, as root).

Host path: TCP between Linux' own address on a pair and a host on the wire, both ways, beside the same over a veth
without a router. All ends share the machine's cores.

Restart: a host sends a datagram each millisecond through the router, which is killed and started again under BIRD with
OSPF and BGP. The outage is the longest time without a datagram; beside it what the router says.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from socket import SOCK_DGRAM

import lab as bench
from linux_rounds import silent
from test_linux_daemons import Bird, configured, joined, kernel, statics
from test_linux_nl import agrees, audit

RELEASE = pathlib.Path(os.environ.get("QUIVER", bench.ROOT / "target/release/quiver"))
TURNS, SECONDS = int(os.environ.get("TURNS", "5")), 3
PORT = 4000


def shown(name, values, unit):
    low, middle, high = min(values), statistics.median(values), max(values)
    print(f"  {name:34} {low:8.2f} {middle:8.2f} {high:8.2f} {unit}", flush=True)


def throughput(client, address, *options):
    """Gigabits a second that the receiver got."""
    answer = client.run("iperf3", "-c", address, "-t", SECONDS, "--json", *options)
    return json.loads(answer.stdout)["end"]["sum_received"]["bits_per_second"] / 1e9


def host_path(driver):
    """Figures of both ways, first from the host to Linux. None: without a router."""
    lab = bench.Lab()
    try:
        linux, host = lab.host("linux"), lab.host("h1")
        if driver is None:
            host.ip("link", "add", "eth0", "type", "veth", "peer", "name", "xe0", "netns", linux.namespace)
            host.ip("link", "set", "eth0", "up")
            host.ip("address", "add", "10.0.1.2/24", "dev", "eth0")
        else:
            router = lab.router(binary=RELEASE)
            router.attach(host, "e0", driver, "10.0.1.2/24")
            router.cli("set interface state e0 up")
            router.cli(f"lcp create e0 host-if xe0 netns {linux.namespace}")
        linux.ip("link", "set", "xe0", "up")
        linux.ip("address", "add", "10.0.1.1/24", "dev", "xe0")
        linux.start("iperf3", "-s", stdout=subprocess.DEVNULL)
        time.sleep(2)
        return throughput(host, "10.0.1.1"), throughput(host, "10.0.1.1", "-R")
    finally:
        lab.tear_down()


class Stream:
    """A datagram each millisecond, and the longest time without one."""

    def __init__(self, source, sink, address):
        self.running, self.came = True, []
        self.out, self.into = source.socket(SOCK_DGRAM), sink.socket(SOCK_DGRAM, (address, PORT), timeout=0.5)
        self.address = address
        self.threads = [threading.Thread(target=work) for work in (self.send, self.receive)]
        for thread in self.threads:
            thread.start()

    def send(self):
        while self.running:
            try:
                self.out.sendto(b"x" * 100, (self.address, PORT))
            except OSError:
                pass
            time.sleep(0.001)

    def receive(self):
        while self.running:
            try:
                self.into.recv(2048)
                self.came.append(time.monotonic())
            except TimeoutError:
                pass

    def longest(self):
        """Seconds."""
        self.running = False
        for thread in self.threads:
            thread.join()
        return max(later - before for before, later in zip(self.came, self.came[1:]))


def restart(many, many6):
    """Seconds without packets, and seconds until the router had all of Linux again."""
    lab = bench.Lab()
    with tempfile.TemporaryDirectory() as name:
        try:
            directory = pathlib.Path(name)
            router, linux, peer, host, _ = joined(
                lab, directory, "af_packet", "linux-cp { hold-time 20 }", binary=RELEASE, no_second_client="figures"
            )
            here = Bird(linux, directory, silent(configured("xe0", 64500, 64501, "192.0.2.1", "192.0.2.2", kernel())))
            there = configured("eth0", 64501, 64500, "192.0.2.2", "192.0.2.1", statics(many, many6))
            Bird(peer, directory, silent(there))
            for protocol in ("ospf4", "ospf6"):
                is_full = lambda: "Full" in here.say("show", "ospf", "neighbors", protocol)
                bench.wait_until(is_full, f"{protocol}: the neighbour is full", seconds=60)
            all_there = lambda: audit(router)["routes"] == many + many6 + 1 and agrees(router)
            bench.wait_until(all_there, "the router has all routes", seconds=120)
            saved = router.cli("show running-config")
            # To an address behind the neighbour, by a route of BGP.
            stream = Stream(host, peer, "198.51.100.1")
            time.sleep(1)
            began = time.monotonic()
            router.kill()
            router.start()
            router.batch(saved)
            bench.wait_until(all_there, "the router has all routes", seconds=60, pause=0.01)
            took = time.monotonic() - began
            time.sleep(5)
            outage = stream.longest()
            assert "Established" in here.say("show", "protocols", "peer")
            assert "Full" in here.say("show", "ospf", "neighbors", "ospf4")
            return outage, took
        finally:
            lab.tear_down()


def main():
    print("TCP between Linux and a host on the wire, in Gb/s: lowest, median, highest")
    for driver, name in [(None, "veth, no router"), ("tap", "pair, wire is a TAP"), ("af_packet", "pair, AF_PACKET")]:
        both = [host_path(driver) for _ in range(TURNS)]
        shown(f"{name}, to Linux", [to for to, _ in both], "Gb/s")
        shown(f"{name}, from Linux", [back for _, back in both], "Gb/s")
    print("The router killed and started again, sessions stay up: lowest, median, highest")
    for many, many6 in [(2000, 500), (100_000, 20_000)]:
        all_of_them = [restart(many, many6) for _ in range(TURNS)]
        shown(f"{many + many6} routes: without packets", [1000 * outage for outage, _ in all_of_them], "ms")
        shown(f"{many + many6} routes: all as in Linux", [1000 * took for _, took in all_of_them], "ms")


if __name__ == "__main__":
    sys.exit(main())
