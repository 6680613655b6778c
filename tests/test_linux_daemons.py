"""BIRD and FRR in Linux steer the router: OSPFv2, OSPFv3, BFD and BGP with a BIRD on the wire, over a pair."""

import pathlib
import re
import shutil
import tempfile
import time

import pytest

from lab import ROOT, wait_until
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
    connect delay time 1; connect retry time 3; error wait time 2, 4;
    ipv4 {{ import all; export where source = RTS_STATIC; next hop self; }};
    ipv6 {{ import all; export where source = RTS_STATIC; next hop self; }};
    bfd;
}}
"""


# The peer of docs/guide/linux-router.md.
PEER = """
log stderr all;
router id 192.0.2.2;
protocol device { scan time 1; }
protocol bfd { interface "eth0" { interval 300 ms; multiplier 3; }; }
protocol ospf v2 ospf4 { ipv4 { import all; export none; };
    area 0 { interface "eth0" { type ptp; hello 2; dead 8; bfd; }; }; }
protocol ospf v3 ospf6 { ipv6 { import all; export none; };
    area 0 { interface "eth0" { hello 2; dead 8; }; }; }
protocol static { ipv4; route 198.51.100.0/24 blackhole; }
protocol static { ipv6; route 2001:db8:9::/48 blackhole; }
protocol bgp peer {
    local 192.0.2.2 as 64501;
    neighbor 192.0.2.1 as 64500;
    connect delay time 1; connect retry time 3; error wait time 2, 4;
    ipv4 { import all; export where source = RTS_STATIC; next hop self; };
    ipv6 { import all; export where source = RTS_STATIC; next hop self; };
    bfd;
}
"""


def of_the_guide(language):
    """The file of a daemon in the guide."""
    page = (ROOT / "docs/guide/linux-router.md").read_text()
    return re.search(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[1]


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
    return joined(lab, tmp_path)


def joined(lab, tmp_path, driver="tap", extra="", **options):
    """Linux with a pair of e0, and a neighbour on the wire. Behind the neighbour are static routes of both families."""
    router = lab.router(extra=extra, **options)
    linux, peer, host = lab.host("linux"), lab.host("peer"), lab.host("h")
    router.cli(f"lcp default netns {linux.namespace}")
    router.attach(peer, "e0", driver, "192.0.2.2/24")
    router.attach(host, "e1", driver, "10.0.2.2/24")
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


def without_bfd(text):
    """What a second without the router does not end."""
    return re.sub(r"protocol bfd .*\n|bfd;", "", text)


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



def starts(bird):
    """When each protocol came up, in seconds of the day. BIRD computes it anew each time, to a millisecond or so."""
    rows = [line.split() for line in bird.say("show", "protocols").splitlines() if " up " in line]
    clocks = {row[0]: re.search(r"(\d+):(\d+):([\d.]+)", " ".join(row)) for row in rows}
    return {name: int(at[1]) * 3600 + int(at[2]) * 60 + float(at[3]) for name, at in clocks.items()}


@pytest.mark.parametrize("ends", ["killed", "stopped"])
def test_neighbours_of_bird_stay_up_when_the_router_starts_again(lab, tmp_path, ends):
    """Another process keeps xe0 with its carrier. BFD, which would see a second without the router, is left out."""
    router, linux, peer, host, directory = joined(lab, tmp_path, "af_packet", "linux-cp { hold-time 20 }")
    log = directory / "bird.log"
    logged = lambda text: without_bfd(text).replace("log stderr", f'log "{log}"')
    here = logged(configured("xe0", 64500, 64501, "192.0.2.1", "192.0.2.2", kernel()))
    for protocol in ("ospf v2 ospf4 {", "ospf v3 ospf6 {"):
        here = here.replace(protocol, protocol + " debug { states, events };")
    here = Bird(linux, directory, here)
    there = logged(configured("eth0", 64501, 64500, "192.0.2.2", "192.0.2.1", statics(2000, 500)))
    Bird(peer, directory, there.replace(str(log), str(directory / "there.log")))
    for protocol in ("ospf4", "ospf6"):
        is_full = lambda: "Full" in here.say("show", "ospf", "neighbors", protocol)
        wait_until(is_full, f"{protocol}: the neighbour is full", seconds=60)
    wait_until(lambda: "Established" in here.say("show", "protocols", "peer"), "BGP is established", seconds=60)
    wait_until(lambda: audit(router)["routes"] == 2501 and agrees(router), "the router has all routes", seconds=60)
    assert host.reaches("198.51.100.1")
    since = starts(here)
    seen = len(log.read_text())
    saved = router.cli("show running-config")
    router.kill() if ends == "killed" else router.stop()
    router.start()
    router.batch(saved)
    wait_until(lambda: audit(router)["routes"] == 2501 and agrees(router), "the router has all routes", seconds=60)
    assert host.reaches("198.51.100.1")
    # Longer than the neighbours wait for each other.
    time.sleep(5)
    # No session and no neighbour was lost.
    assert len(since) >= 6 and starts(here) == pytest.approx(since, abs=0.1)
    for protocol in ("ospf4", "ospf6"):
        assert "Full" in here.say("show", "ospf", "neighbors", protocol)
    said = log.read_text()[seen:]
    assert "from Full" not in said and "down" not in said.lower(), said


FRR = pathlib.Path("/usr/lib/frr")

STEERED = """
hostname here
log stdout
interface xe0
 ip ospf area 0
 ip ospf hello-interval 1
 ip ospf dead-interval 4
 ip ospf bfd
 ipv6 ospf6 area 0
 ipv6 ospf6 hello-interval 1
 ipv6 ospf6 dead-interval 4
router ospf
 ospf router-id 192.0.2.1
router ospf6
 ospf6 router-id 192.0.2.1
bfd
router bgp 64500
 bgp router-id 192.0.2.1
 no bgp ebgp-requires-policy
 neighbor 192.0.2.2 remote-as 64501
 neighbor 192.0.2.2 bfd
 neighbor 192.0.2.2 timers connect 3
 address-family ipv6 unicast
  neighbor 192.0.2.2 activate
 exit-address-family
"""


class Frr:
    """FRR's daemons in a host."""

    DAEMONS = ("zebra", "bfdd", "ospfd", "ospf6d", "bgpd")

    def __init__(self, lab, host, zebra=(), text=STEERED):
        """`zebra` is what else that daemon is started with, `text` the configuration."""
        self.host, self.zebra = host, zebra
        # The daemons run as a user of their own.
        self.directory = pathlib.Path(lab.stack.enter_context(tempfile.TemporaryDirectory(prefix="quiver-frr-")))
        shutil.chown(self.directory, "frr", "frr")
        config = self.directory / "frr.conf"
        config.write_text(text)
        config.chmod(0o644)
        self.processes = [self.start(daemon, config) for daemon in self.DAEMONS]

    def start(self, daemon, config):
        words = [FRR / daemon, "-f", config, "-i", self.directory / f"{daemon}.pid", "-z", self.directory / "zserv.api"]
        words += ["--vty_socket", self.directory, "-A", "127.0.0.1", "-P", "0", "--log", "stdout"]
        if daemon == "zebra":
            words += self.zebra
        if daemon == "bfdd":
            words += ["--bfdctl", self.directory / "bfdd.sock"]
        process = self.host.start(*map(str, words))
        wait_until((self.directory / f"{daemon}.vty").exists, f"{daemon} runs")
        return process

    def say(self, command):
        return self.host.run("vtysh", "--vty_socket", str(self.directory), "-c", command, check=False).stdout


@pytest.mark.skipif(not FRR.is_dir(), reason="needs the package frr")
def test_neighbours_of_frr_are_up_and_its_routes_forward(lab, neighbours):
    router, linux, peer, host, directory = neighbours
    many, many6 = 2000, 500
    Bird(peer, directory, configured("eth0", 64501, 64500, "192.0.2.2", "192.0.2.1", statics(many, many6)))
    frr = Frr(lab, linux)
    wait_until(lambda: "Full" in frr.say("show ip ospf neighbor"), "OSPFv2: the neighbour is full", seconds=60)
    wait_until(lambda: "Full" in frr.say("show ipv6 ospf6 neighbor"), "OSPFv3: the neighbour is full", seconds=60)
    established = lambda: "BGP state = Established" in frr.say("show bgp neighbors 192.0.2.2")
    wait_until(established, "BGP is established", seconds=60)
    wait_until(lambda: "Status: up" in frr.say("show bfd peers"), "BFD is up", seconds=60)
    wait_until(lambda: audit(router)["routes"] >= many + 1 + many6, "the router has all routes", seconds=60)
    wait_until(lambda: agrees(router), "the router has what Linux has")
    assert host.reaches("198.51.100.1"), "the route of BGP forwards"
    # zebra dies in the middle, and leaves its routes to Linux.
    frr.processes[0].kill()
    assert host.reaches("198.51.100.1")
    wait_until(lambda: agrees(router), "the router has what Linux has")


@pytest.mark.skipif(not FRR.is_dir(), reason="needs the package frr")
def test_routes_of_frr_come_by_fpm_without_the_kernel(lab, tmp_path):
    """zebra connects, says its routes, dies and comes again. The sessions run over the pair as ever."""
    many, many6 = 2000, 500
    router, linux, peer, host, directory = joined(lab, tmp_path, extra="fpm { listen 127.0.0.1:2620 hold-time 20 }")
    linux.ip("link", "set", "lo", "up")
    Bird(peer, directory, configured("eth0", 64501, 64500, "192.0.2.2", "192.0.2.1", statics(many, many6)))
    fpm = lambda: router.cli_json("show fpm")
    frr = Frr(lab, linux, zebra=["-M", "dplane_fpm_nl"], text=STEERED + "fpm address 127.0.0.1 port 2620\n")
    wait_until(lambda: fpm()["peer"] is not None, "zebra is connected", seconds=60)
    wait_until(lambda: fpm()["prefixes"] >= many + 1 + many6, "the router has all routes", seconds=60)
    wait_until(lambda: fpm()["backlog"] == 0, "and they forward")
    for prefix, command in (("198.51.100.0/24", "ip"), ("2001:db8:8000:1::/64", "ip6")):
        assert "fpm" in router.cli(f"show {command} fib {prefix}")
    assert host.reaches("198.51.100.1")
    assert fpm()["malformed"] == 0 and fpm()["offloaded"] >= many + 1 + many6, fpm()
    # zebra connects again, and says all of it again.
    frr.say("configure\nno fpm address")
    wait_until(lambda: fpm()["peer"] is None, "zebra is gone", seconds=60)
    assert host.reaches("198.51.100.1")
    frr.say("configure\nfpm address 127.0.0.1 port 2620")
    wait_until(lambda: fpm()["sessions"] == 2, "zebra is connected", seconds=60)
    wait_until(lambda: fpm()["prefixes"] >= many + 1 + many6, "the router has all routes", seconds=60)
    assert host.reaches("198.51.100.1")
    # zebra dies, and its routes of Linux go: what it said here forwards on for the hold time.
    frr.processes[0].kill()
    frr.processes[0].wait()
    wait_until(lambda: fpm()["peer"] is None, "zebra is gone", seconds=60)
    linux.ip("nexthop", "flush")
    wait_until(lambda: audit(router)["routes"] == 0 and agrees(router), "those of Linux are gone")
    assert host.reaches("198.51.100.1")


@pytest.mark.parametrize("daemon", ["bird", "frr"])
def test_the_files_of_the_guide_make_a_router(lab, neighbours, daemon):
    if daemon == "frr" and not FRR.is_dir():
        pytest.skip("needs the package frr")
    router, linux, peer, host, directory = neighbours
    there = Bird(peer, directory, PEER)
    if daemon == "bird":
        Bird(linux, directory, of_the_guide("bird").replace("log syslog", "log stderr"))
    else:
        Frr(lab, linux, text="hostname here\nlog stdout\n" + of_the_guide("frr"))
    for protocol in ("ospf4", "ospf6"):
        is_full = lambda: "Full" in there.say("show", "ospf", "neighbors", protocol)
        wait_until(is_full, f"{protocol}: the router is full", seconds=60)
    wait_until(lambda: "Established" in there.say("show", "protocols", "peer"), "BGP is established", seconds=60)
    wait_until(lambda: " Up " in there.say("show", "bfd", "sessions"), "BFD is up", seconds=60)
    # Routes of the peer forward, and the peer has those of the router.
    wait_until(lambda: audit(router)["routes"] >= 2 and agrees(router), "the router has the routes", seconds=60)
    assert host.reaches("198.51.100.1")
    has = lambda prefix: prefix in there.say("show", "route", "protocol", "peer")
    wait_until(lambda: has("10.0.2.0/24") and has("2001:db8:2::/64"), "the peer has the routes", seconds=60)
