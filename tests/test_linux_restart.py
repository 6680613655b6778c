"""Sides of pairs in Linux outlive the router: another process keeps them, and the next router takes them over."""

import contextlib
import os

import pytest

from lab import CommandFailed, wait_until
from test_linux_nl import agrees

HELD = "linux-cp { hold-time 10 }"


def kept(lab, extra=HELD):
    """h1 -- e0 [router] e1 -- h2, with the sides xe0 and xe1 in the namespace `linux`, which have addresses. The wires
    are AF_PACKET: they outlive the router, too."""
    router = lab.router(extra=extra)
    linux = lab.host("linux")
    hosts = []
    for number in (0, 1):
        host = lab.host(f"h{number + 1}")
        router.attach(host, f"e{number}", "af_packet", f"10.0.{number + 1}.2/24")
        host.ip("route", "add", "default", "via", f"10.0.{number + 1}.1")
        router.cli(f"lcp create e{number} host-if xe{number} netns {linux.namespace}")
        linux.ip("link", "set", f"xe{number}", "up")
        linux.ip("address", "add", f"10.0.{number + 1}.1/24", "dev", f"xe{number}")
        hosts.append(host)
    linux.ip("route", "add", "192.0.2.0/24", "via", "10.0.2.2")
    settle(router)
    return router, linux, *hosts


def settle(router):
    wait_until(lambda: agrees(router), "the router has what Linux has")


def again(router):
    """Starts the router again, with what it was told to be."""
    router.start()
    router.batch(router.saved)
    settle(router)


def keepers(router):
    """The processes that a router started to keep links."""
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            parent = open(f"/proc/{int(name)}/stat").read().rsplit(")", 1)[1].split()[1]
            words = open(f"/proc/{int(name)}/cmdline", "rb").read().split(b"\0")
            if b"keep-links" in words and int(parent) == router.process.pid:
                found.append(int(name))
    return found


def runs(process):
    """Whether it is there, and no zombie that nobody has reaped yet."""
    try:
        return open(f"/proc/{process}/stat").read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_router_that_was_killed_finds_its_pairs_as_they_were(lab):
    router, linux, h1, h2 = kept(lab)
    assert h1.reaches("10.0.2.2")
    router.saved = router.cli("show running-config")
    index = linux.ip("-br", "link", "show", "xe0")
    router.kill()
    # In Linux nothing has changed: not even the carrier is gone.
    shown = linux.ip("-br", "link", "show", "xe0")
    assert shown == index and "LOWER_UP" in shown, shown
    assert "192.0.2.0/24 via 10.0.2.2 dev xe1" in linux.ip("route", "show")
    # A route that is added while no router runs is the next one's, and one that goes is not.
    linux.ip("route", "add", "198.51.100.0/24", "via", "10.0.1.2")
    linux.ip("route", "delete", "192.0.2.0/24")
    again(router)
    assert h1.reaches("10.0.2.2") and h1.reaches("10.0.2.1") and linux.reaches("10.0.1.2")
    fib = router.cli("show ip fib")
    assert "198.51.100.0/24" in fib and "192.0.2.0/24" not in fib, fib
    assert linux.ip("-br", "link", "show", "xe0") == index


def test_an_orderly_end_keeps_pairs_too_and_those_that_are_deleted_go(lab):
    router, linux, h1, _ = kept(lab)
    router.saved = router.cli("show running-config")
    router.stop()
    assert "LOWER_UP" in linux.ip("-br", "link", "show", "xe0")
    again(router)
    assert h1.reaches("10.0.2.2")
    router.cli("lcp delete e0")
    wait_until(lambda: "xe0" not in linux.ip("-br", "link"), "it is gone")
    # It can be made anew at once, and is new.
    router.cli(f"lcp create e0 host-if xe0 netns {linux.namespace}")
    assert "10.0.1.1" not in linux.ip("address", "show", "xe0")
    router.cli("lcp delete e0")
    router.cli("lcp delete e1")
    wait_until(lambda: "xe" not in linux.ip("-br", "link"), "both are gone")


def test_pairs_that_no_router_wants_go_after_the_time(lab):
    router, linux, *_ = kept(lab, extra="linux-cp { hold-time 2 }")
    (keeper,) = keepers(router)
    saved = router.cli("show running-config")
    router.kill()
    router.start()
    # Only one of them is wanted again.
    router.batch(saved.replace(f"lcp create e1 host-if xe1 netns {linux.namespace}\n", ""))
    settle(router)
    wait_until(lambda: "xe1" not in linux.ip("-br", "link"), "the other one is gone")
    assert "LOWER_UP" in linux.ip("-br", "link", "show", "xe0")
    router.kill()
    wait_until(lambda: "xe0" not in linux.ip("-br", "link"), "it is gone, too")
    wait_until(lambda: not runs(keeper), "and so is the process that kept them")


def test_without_a_time_pairs_end_with_the_router(lab):
    router, linux, *_ = kept(lab, extra="")
    assert not keepers(router)
    router.kill()
    wait_until(lambda: "xe0" not in linux.ip("-br", "link"), "the pairs are gone")


def test_a_second_router_does_not_take_the_pairs_of_the_first(lab):
    router, linux, h1, _ = kept(lab)
    other = lab.router(extra=HELD)
    # It is in another namespace, where the name is free; but the interface is not.
    other.cli("create loopback interface")
    with pytest.raises(CommandFailed, match="xe0"):
        other.cli(f"lcp create loop0 host-if xe0 netns {linux.namespace}")
    assert h1.reaches("10.0.2.2")
    settle(router)
