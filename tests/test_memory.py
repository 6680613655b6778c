"""Memory returns when what took it has gone."""

import ipaddress
import random
import time

import pytest

ROUTES = 150_000
LABELS = 60_000
# Memory goes back 30 s after the last route has gone: those of a neighbour that restarts come back.
LATER = 36

SETUP = """
create null interface name n0
set interface ip address n0 10.0.9.1/24
set interface ip address n0 2001:db8:9::1/64
set interface state n0 up
ip neighbor n0 10.0.9.2 02:00:00:00:00:02
mpls table add 0
set interface mpls n0 enable
"""


def resident(router):
    """Megabytes of the process that are in memory."""
    with open(f"/proc/{router.process.pid}/smaps_rollup", encoding="ascii") as file:
        return int(file.read().split("Rss:")[1].split()[0]) / 1024


@pytest.mark.slow
def test_memory_returns_when_routes_and_labels_have_gone(lab):
    router = lab.router()
    router.batch(SETUP)
    chance = random.Random(3)
    nets4 = {chance.randrange(0x0B000000, 0xDF000000) & ~0xFF for _ in range(ROUTES)}
    # Hosts have a second level of slots.
    hosts = sorted(nets4)[::8]
    routes4 = [f"{ipaddress.IPv4Address(net)}/24" for net in nets4] + [
        f"{ipaddress.IPv4Address(net)}/32" for net in hosts
    ]
    routes6 = [
        f"{ipaddress.IPv6Address((0x2000 + chance.getrandbits(13)) << 112 | chance.getrandbits(48) << 64)}/64"
        for _ in range(ROUTES)
    ]
    files = {
        "four": "".join(f"{route} via 10.0.9.2\n" for route in routes4),
        "six": "".join(f"{route} via 2001:db8:9::2\n" for route in routes6),
        "none": "",
        "labels": "".join(f"mpls local-label add {at + 16} eos via 10.0.9.2 n0\n" for at in range(LABELS)),
        "no_labels": "".join(f"mpls local-label del {at + 16} eos via 10.0.9.2 n0\n" for at in range(LABELS)),
    }
    for name, text in files.items():
        (router.directory / name).write_text(text)

    def load(*commands):
        for command in commands:
            router.cli(command.replace("DIR", str(router.directory)))
        return resident(router)

    before = resident(router)
    for _ in range(2):
        full = load("ip route load DIR/four", "ip route load DIR/six", "exec DIR/labels")
        assert full > before + 30
        load("ip route load DIR/none replace", "exec DIR/no_labels")
        time.sleep(LATER)
        after = resident(router)
        print(f"{before:.0f} MB before, {full:.0f} full, {after:.0f} after")
        assert full - after > 0.7 * (full - before), f"{before:.0f} MB, then {full:.0f}, then {after:.0f}"
        before = after
