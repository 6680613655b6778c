"""BIRD in Linux steers the router: OSPFv2, OSPFv3, BFD and BGP with another BIRD on the wire, over a pair."""

import shutil

import pytest

from lab import wait_until
from test_linux_nl import agrees, audit, followed

pytestmark = pytest.mark.skipif(not shutil.which("bird"), reason="needs the package bird2")

COMMON = """
log stderr all;
router id {router_id};
protocol device {{ scan time 1; }}
protocol direct {{ ipv4; ipv6; interface "{link}"; }}
protocol bfd {{ interface "{link}" {{ min rx interval 200 ms; min tx interval 200 ms; multiplier 5; }}; }}
protocol ospf v2 ospf4 {{
    ipv4 {{ import all; export none; }};
    area 0 {{ interface "{link}" {{ hello 1; dead 4; bfd; }}; }};
}}
protocol ospf v3 ospf6 {{
    ipv6 {{ import all; export none; }};
    area 0 {{ interface "{link}" {{ hello 1; dead 4; bfd; }}; }};
}}
protocol bgp peer {{
    local {local} as {own};
    neighbor {remote} as {other};
    ipv4 {{ import all; export where source = RTS_STATIC; next hop self; }};
    ipv6 {{ import all; export where source = RTS_STATIC; next hop self; }};
    bfd;
}}
"""


class Bird:
    """BIRD in a host."""

    def __init__(self, host, directory, text):
        self.host, self.socket = host, directory / f"{host.namespace}.ctl"
        config = directory / f"{host.namespace}.conf"
        config.write_text(text)
        self.process = host.start("bird", "-f", "-c", str(config), "-s", str(self.socket))
        wait_until(self.socket.exists, "BIRD runs")

    def say(self, *words):
        return self.host.run("birdc", "-s", str(self.socket), *words, check=False).stdout


@pytest.fixture
def neighbours(lab, tmp_path):
    """Linux with a pair of e0, and a neighbour on the wire. Behind the neighbour are static routes of both families."""
    router = lab.router()
    linux, peer, host = lab.host("linux"), lab.host("peer"), lab.host("h")
    router.cli(f"lcp default netns {linux.namespace}")
    router.attach(peer, "e0", "tap", "192.0.2.2/24")
    router.attach(host, "e1", "tap", "10.0.2.2/24")
    host.ip("route", "add", "default", "via", "10.0.2.1")
    peer.speak_ip6("2001:db8:1::2/64")
    for number, addresses in enumerate([("192.0.2.1/24", "2001:db8:1::1/64"), ("10.0.2.1/24", "2001:db8:2::1/64")]):
        router.cli(f"lcp create e{number} host-if xe{number}")
        linux.ip("link", "set", f"xe{number}", "up")
        linux.ip("address", "add", addresses[0], "dev", f"xe{number}")
        linux.speak_ip6(addresses[1], f"xe{number}")
    wait_until(lambda: agrees(router), "the router has the addresses")
    # A destination behind the neighbour.
    peer.ip("address", "add", "198.51.100.1/32", "dev", "lo")
    peer.ip("route", "add", "default", "via", "192.0.2.1")
    return router, linux, peer, host, tmp_path


def kernel():
    """BIRD gives Linux its routes."""
    family = "protocol kernel kernel{0} {{ {1} {{ import none; export where source != RTS_DEVICE; }}; merge paths; }}\n"
    return family.format(4, "ipv4") + family.format(6, "ipv6")


def configured(link, own, other, local, remote, more=""):
    return COMMON.format(router_id=local, link=link, own=own, other=other, local=local, remote=remote) + more


def statics(count, count6):
    """Static routes of a neighbour, to itself."""
    four = "".join(f"route 100.{n // 65536}.{n // 256 % 256}.{n % 256}/32 blackhole;\n" for n in range(count))
    six = "".join(f"route 2001:db8:8000:{n:x}::/64 blackhole;\n" for n in range(count6))
    own = "route 198.51.100.0/24 blackhole;\n"
    return f"protocol static s4 {{ ipv4; {own}{four} }}\nprotocol static s6 {{ ipv6; {six} }}\n"


def test_neighbours_of_bird_are_up_and_its_routes_forward(neighbours):
    router, linux, peer, host, directory = neighbours
    many, many6 = 3000, 1000
    here = Bird(linux, directory, configured("xe0", 64500, 64501, "192.0.2.1", "192.0.2.2", kernel()))
    there = Bird(peer, directory, configured("eth0", 64501, 64500, "192.0.2.2", "192.0.2.1", statics(many, many6)))
    for protocol in ("ospf4", "ospf6"):
        is_full = lambda: "Full" in here.say("show", "ospf", "neighbors", protocol)
        wait_until(is_full, f"{protocol}: the neighbour is full", seconds=60)
    wait_until(lambda: "Established" in here.say("show", "protocols", "peer"), "BGP is established", seconds=60)
    wait_until(lambda: here.say("show", "bfd", "sessions").count(" Up ") >= 2, "BFD is up", seconds=60)
    wait_until(lambda: audit(router)["routes"] == many + 1 + many6, "the router has all routes", seconds=60)
    assert agrees(router)
    assert host.reaches("198.51.100.1"), "the route of BGP forwards"
    # The neighbour takes its routes back, and announces them again.
    there.say("disable", "s4")
    wait_until(lambda: audit(router)["routes"] == many6 and agrees(router), "the routes are gone", seconds=60)
    there.say("enable", "s4")
    wait_until(lambda: audit(router)["routes"] == many + 1 + many6 and agrees(router), "they are back", seconds=60)
    # BIRD dies, and leaves its routes to Linux: they forward on. It comes again.
    here.process.kill()
    here.process.wait()
    assert host.reaches("198.51.100.1")
    here.socket.unlink()
    here = Bird(linux, directory, configured("xe0", 64500, 64501, "192.0.2.1", "192.0.2.2", kernel()))
    wait_until(lambda: "Established" in here.say("show", "protocols", "peer"), "BGP is established", seconds=60)
    wait_until(lambda: audit(router)["routes"] == many + 1 + many6 and agrees(router), "nothing is stale", seconds=60)
    # An operator flushes everything; BIRD looks at the table of Linux once a minute only.
    linux.ip("route", "flush", "proto", "bird")
    linux.ip("-6", "route", "flush", "proto", "bird")
    wait_until(lambda: audit(router)["routes"] == 0 and agrees(router), "the routes are gone", seconds=60)
    assert followed(router)["malformed"] == 0
    assert not host.reaches("198.51.100.1", count=1, wait=1)
