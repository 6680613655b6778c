"""Interfaces that go down, come back, disappear and are made anew, under traffic."""

import contextlib
import re
import subprocess
import threading
import time

import pytest
from lab import CommandFailed, wait_until


class Pinger:
    """A hundred echo requests a second from one host to an address."""

    def __init__(self, host, address):
        ping = ["ping", "-n", "-D", "-i", "0.01", "-W", "1", address]
        self.process = host.start(*ping, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.said = []
        self.reader = threading.Thread(target=lambda: self.said.extend(self.process.stdout), daemon=True)
        self.reader.start()
        self.wait_for_answers()

    def answers(self):
        """The times of answers so far."""
        found = (re.match(r"\[([\d.]+)\] \d+ bytes from", line) for line in self.said)
        return [float(answer[1]) for answer in found if answer]

    def wait_for_answers(self, count=10, after=0.0):
        """Waits until so many have come after a time."""
        wait_until(lambda: sum(at > after for at in self.answers()) >= count, "pings are answered", seconds=30)

    def stop(self):
        """Gives all that ping said."""
        self.process.send_signal(subprocess.signal.SIGINT)
        self.process.wait(timeout=20)
        self.reader.join(timeout=20)
        return "".join(self.said)


def resumes(pings, down, up):
    """None are answered while it is down, but what was underway may still arrive; and again afterwards."""
    pings.wait_for_answers(after=up)
    during = [at for at in pings.answers() if down + 0.05 < at < up]
    assert during == [], f"{len(during)} answers while down"


def test_traffic_stops_with_the_interface_and_resumes_with_it(two_hosts):
    router, h1, _ = two_hosts
    assert h1.reaches("10.0.2.2")
    pings = Pinger(h1, "10.0.2.2")
    router.cli("set interface state e1 down")
    down = time.time()
    time.sleep(0.7)
    assert router.interface("e1")["state"] == "down"
    up = time.time()
    router.cli("set interface state e1 up")
    resumes(pings, down, up)
    # Its network is gone with it, and senders get an error.
    assert "Destination Net Unreachable" in pings.stop()


def test_the_routes_of_an_interface_that_is_down_wait_for_it(two_hosts):
    router, h1, _ = two_hosts
    router.cli("ip route add 192.0.2.0/24 via 10.0.2.2")
    router.cli("set interface state e1 down")
    shown = router.cli("show ip fib")
    assert "10.0.2.0/24\n  unresolved" in shown and "192.0.2.0/24\n  unresolved" in shown
    router.cli("set interface state e1 up")
    assert "unresolved" not in router.cli("show ip fib")
    assert h1.reaches("10.0.2.2")


def test_a_receiving_interface_that_is_down_takes_nothing(two_hosts):
    router, h1, _ = two_hosts
    assert h1.reaches("10.0.2.2")
    pings = Pinger(h1, "10.0.2.2")
    router.cli("set interface state e0 down")
    down = time.time()
    time.sleep(0.1)
    before, refused = router.counters("e0")["ip4"], router.errors()["interface is down"]
    wait_until(lambda: router.errors()["interface is down"] - refused > 10, "pings get no answer", seconds=30)
    assert router.counters("e0")["ip4"] == before
    up = time.time()
    router.cli("set interface state e0 up")
    resumes(pings, down, up)
    pings.stop()


def test_traffic_resumes_after_the_hosts_link_flaps(two_hosts):
    router, h1, h2 = two_hosts
    assert h1.reaches("10.0.2.2")
    pings = Pinger(h1, "10.0.2.2")
    h2.ip("link", "set", "eth0", "down")
    down = time.time()
    wait_until(lambda: router.interface("e1")["link"] == "down", "the router sees the link down")
    time.sleep(0.5)
    up = time.time()
    h2.ip("link", "set", "eth0", "up")
    h2.ip("route", "add", "default", "via", "10.0.2.1")
    wait_until(lambda: router.interface("e1")["link"] == "up", "the router sees the link up")
    resumes(pings, down, up)
    pings.stop()


def test_a_lookup_says_what_a_link_that_is_down_took_away(lab):
    """`show ip fib ADDRESS` names the reason, and `show interface` tells what was set from what is."""
    router, h1, h2 = lab.two_hosts("af_packet")
    router.cli("set interface ip address e1 2001:db8:2::1/64")
    router.cli("ip route add 50.0.0.0/8 via 10.0.2.2")
    router.cli("ip table add 10")
    router.cli("ip route add 52.0.0.0/8 table 10 via 10.0.2.2 e1")

    def why(address, command="show ip fib"):
        with contextlib.suppress(CommandFailed):
            return router.cli(f"{command} {address}")
        with pytest.raises(CommandFailed) as refused:
            router.cli(f"{command} {address}")
        return str(refused.value)

    assert "note:" not in why("50.1.1.1")
    assert "not in table 0, only in table 10" in why("52.1.1.1")
    h2.ip("link", "set", "eth0", "down")
    wait_until(lambda: router.interface("e1")["link"] == "down", "the router sees the link down")
    assert router.interface("e1")["state"] == "up"
    assert "\n  link down\n" in router.cli("show interface e1")
    assert "link down" not in router.cli("show interface e0")
    assert "connected 10.0.2.0/24 on e1 is withdrawn: link down" in why("10.0.2.2")
    assert "route 50.0.0.0/8 via 10.0.2.2 on e1 is withdrawn: link down" in why("50.1.1.1")
    assert "connected 2001:db8:2::/64 on e1 is withdrawn: link down" in why("2001:db8:2::2", "show ip6 fib")
    router.cli("set interface state e1 down")
    assert "connected 10.0.2.0/24 on e1 is withdrawn: admin down" in why("10.0.2.2")
    # A neighbour that does not answer.
    router.cli("ip route add 53.0.0.0/8 via 10.0.1.77")
    assert not h1.reaches("53.1.1.1")
    assert "next hop 10.0.1.77 on e0 unresolved" in why("53.1.1.1")


def test_an_interface_can_be_deleted_and_made_again_under_traffic(two_hosts, driver):
    router, h1, h2 = two_hosts
    assert h1.reaches("10.0.2.2")
    pings = Pinger(h1, "10.0.2.2")
    router.cli("delete interface e1")
    down = time.time()
    assert "e1" not in router.cli("show interface")
    time.sleep(0.3)
    if driver == "tap":
        wait_until(lambda: "eth0" not in h2.ip("link"), "the host's end is gone")
    else:
        h2.ip("link", "delete", "eth0")
    up = time.time()
    router.attach(h2, "e1", driver, "10.0.2.2/24")
    router.cli("set interface ip address e1 10.0.2.1/24")
    router.cli("set interface state e1 up")
    h2.ip("route", "add", "default", "via", "10.0.2.1")
    resumes(pings, down, up)
    pings.stop()


def test_the_router_survives_a_host_that_deletes_its_interface(two_hosts):
    router, h1, h2 = two_hosts
    assert h1.reaches("10.0.2.2")
    pings = Pinger(h1, "10.0.2.2")
    h2.ip("link", "delete", "eth0")
    wait_until(lambda: router.interface("e1")["link"] == "down", "the router sees it")
    before = router.cpu_seconds()
    time.sleep(1)
    assert router.cpu_seconds() - before < 0.5, "the router is busy with a device that is gone"
    pings.stop()
    assert h1.reaches("10.0.1.1")
    router.cli("delete interface e1")


def test_interfaces_come_and_go_a_hundred_times(lab):
    router, h1, _ = lab.two_hosts("tap")
    pings = Pinger(h1, "10.0.2.2")
    for _ in range(100):
        router.batch(
            "create null interface name n0\n"
            "set interface ip address n0 10.0.9.1/24\n"
            "set interface state n0 up\n"
            "ip route add 192.0.2.0/24 via 10.0.9.2\n"
            "delete interface n0\n"
            "ip route del 192.0.2.0/24\n"
        )
    said = pings.stop()
    sent, received = map(int, re.search(r"(\d+) packets transmitted, (\d+) received", said).groups())
    assert sent - received <= 1, "forwarding stopped while interfaces came and went"


def test_a_renamed_interface_goes_on_forwarding(two_hosts):
    router, h1, _ = two_hosts
    assert h1.reaches("10.0.2.2")
    router.cli("set interface name e1 uplink")
    assert h1.reaches("10.0.2.2")
    assert router.interface("uplink")["state"] == "up"
    assert "uplink-tx" in router.cli("show node") and "e1-tx" not in router.cli("show node")
    assert {known["interface"] for known in router.neighbours().values()} == {"e0", "uplink"}
