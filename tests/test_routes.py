"""Static routes: the longest prefix, several next hops, routes that come and go."""

import threading
from socket import SOCK_DGRAM

import pytest

from lab import CommandFailed

SERVICE = "16.0.0.1"


def answer_with_name(host, stop):
    """A server at the shared address that says who it is."""
    host.ip("address", "add", f"{SERVICE}/32", "dev", "lo")
    serving = host.socket(SOCK_DGRAM, (SERVICE, 7000), timeout=0.1)

    def serve():
        while not stop.is_set():
            try:
                _, sender = serving.recvfrom(100)
                serving.sendto(host.name.encode(), sender)
            except TimeoutError:
                pass

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


@pytest.fixture
def service(lab, driver):
    """h1 behind e0; h2 and h3 behind e1 and e2, both with the service's address."""
    router, h1, h2 = lab.two_hosts(driver)
    h3 = lab.host("h3")
    router.attach(h3, "e2", driver, "10.0.3.2/24")
    router.cli("set interface ip address e2 10.0.3.1/24")
    router.cli("set interface state e2 up")
    h3.ip("route", "add", "default", "via", "10.0.3.1")
    stop = threading.Event()
    threads = [answer_with_name(host, stop) for host in (h2, h3)]
    yield router, h1
    stop.set()
    for thread in threads:
        thread.join()


def who_answers(host, flows, times=1):
    """For each flow (a source port) the set of hosts that answered."""
    answers = []
    for _ in range(flows):
        asking = host.socket(SOCK_DGRAM)
        asking.connect((SERVICE, 7000))
        answered = set()
        for _ in range(times):
            asking.send(b"who?")
            answered.add(asking.recv(100).decode())
        answers.append(answered)
        asking.close()
    return answers


def test_a_route_leads_to_its_next_hop(service):
    router, h1 = service
    router.cli("ip route add 16.0.0.0/24 via 10.0.2.2")
    assert who_answers(h1, 4) == [{"h2"}] * 4


def test_two_next_hops_share_flows_and_each_flow_stays(service):
    router, h1 = service
    router.cli("ip route add 16.0.0.0/24 via 10.0.2.2 via 10.0.3.2")
    answers = who_answers(h1, flows=64, times=3)
    assert all(len(hosts) == 1 for hosts in answers), "a flow changed its path"
    share = sum(hosts == {"h2"} for hosts in answers)
    # 64 flows of equal chance: outside of this once in a million runs.
    assert 12 <= share <= 52


def test_a_weight_gives_a_next_hop_more_flows(service):
    router, h1 = service
    router.cli("ip route add 16.0.0.0/24 via 10.0.2.2 weight 7 via 10.0.3.2 weight 1")
    share = sum(hosts == {"h2"} for hosts in who_answers(h1, flows=64))
    assert share >= 40


def test_a_next_hop_whose_interface_goes_down_is_left_out(service):
    router, h1 = service
    router.cli("ip route add 16.0.0.0/24 via 10.0.2.2 via 10.0.3.2")
    router.cli("set interface state e1 down")
    assert who_answers(h1, 16) == [{"h3"}] * 16
    router.cli("set interface state e1 up")
    assert {name for hosts in who_answers(h1, 64) for name in hosts} == {"h2", "h3"}


def test_a_path_can_be_taken_off_and_put_back(service):
    router, h1 = service
    router.cli("ip route add 16.0.0.0/24 via 10.0.2.2")
    router.cli("ip route add 16.0.0.0/24 via 10.0.3.2")
    router.cli("ip route del 16.0.0.0/24 via 10.0.2.2")
    assert who_answers(h1, 16) == [{"h3"}] * 16


def test_the_longest_prefix_wins(service):
    router, h1 = service
    router.batch(
        "ip route add 0.0.0.0/0 via 10.0.2.2\n"
        "ip route add 16.0.0.0/24 via 10.0.2.2\n"
        "ip route add 16.0.0.1/32 via 10.0.3.2\n"
    )
    assert who_answers(h1, 4) == [{"h3"}] * 4
    router.cli("ip route del 16.0.0.1/32")
    assert who_answers(h1, 4) == [{"h2"}] * 4
    router.cli("ip route del 16.0.0.0/24")
    assert who_answers(h1, 4) == [{"h2"}] * 4
    router.cli("ip route del 0.0.0.0/0")
    assert "Net Unreachable" in h1.ping(SERVICE, count=1).stdout


def test_traffic_flows_while_ten_thousand_routes_change(lab):
    router, h1, _ = lab.two_hosts("tap")
    prefixes = [f"20.{number >> 8}.{number & 255}.0/24" for number in range(10_000)]
    pinging = threading.Thread(target=lambda: said.append(h1.ping("10.0.2.2", count=100, interval=0.02).stdout))
    said = []
    assert h1.reaches("10.0.2.2")
    pinging.start()
    router.batch("".join(f"ip route add {prefix} via 10.0.2.2\n" for prefix in prefixes))
    summary = {row["length"]: row["count"] for row in router.cli_json("show ip fib summary")["tables"][0]["lengths"]}
    assert summary[24] == 10_002
    router.batch("".join(f"ip route del {prefix} via 10.0.2.2\n" for prefix in prefixes))
    pinging.join()
    assert " 0% packet loss" in said[0]
    summary = {row["length"]: row["count"] for row in router.cli_json("show ip fib summary")["tables"][0]["lengths"]}
    assert summary[24] == 2


def test_wrong_routes_are_refused_and_change_nothing(lab):
    router, _, _ = lab.two_hosts("tap")
    before = router.cli("show ip fib")
    for command, reason in (
        ("ip route add 16.0.0.0/33 via 10.0.2.2", "16.0.0.0/33"),
        ("ip route add 16.0.0.0/24 via 224.0.0.1", "224.0.0.1"),
        ("ip route add 16.0.0.0/24 via 10.0.2.2 e9", "e9"),
        ("ip route del 16.0.0.0/24", "16.0.0.0/24"),
        ("set interface ip address e1 10.0.1.9/24", "10.0.1"),
    ):
        with pytest.raises(CommandFailed, match=reason):
            router.cli(command)
    assert router.cli("show ip fib") == before
