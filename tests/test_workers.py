"""Several workers: each on its core, packets from one to the other, queues that change hands."""

import os
import struct
import threading
import time
from socket import SOCK_DGRAM

import pytest

from lab import CommandFailed, wait_until
from test_fragments import iperf

TWO = "cpu { workers 2 }\n"


@pytest.fixture
def two_workers(lab, driver):
    return lab.two_hosts(driver, extra=TWO)


def placement(router):
    return {queue["interface"]: queue["thread"] for queue in router.cli_json("show interface rx-placement")["queues"]}


def test_workers_have_cores_and_share_the_queues(two_workers):
    router, h1, _ = two_workers
    threads = router.cli_json("show threads")["threads"]
    assert [thread["name"] for thread in threads[1:]] == ["quiver_wk_0", "quiver_wk_1"]
    if os.cpu_count() > 1:
        assert h1.reaches("10.0.2.2", count=20, interval=0.01)
        tasks = [thread["lwp"] for thread in threads[1:]]
        cores = [os.sched_getaffinity(task) for task in tasks]
        assert [len(own) for own in cores] == [1, 1] and cores[0] != cores[1]
    assert placement(router) == {"e0": 1, "e1": 2}


def test_both_ways_cross_from_worker_to_worker(two_workers):
    router, h1, h2 = two_workers
    assert h1.reaches("10.0.2.2", count=50, interval=0.002)
    assert iperf(h2, h1, "--bytes", "100M")["sum_received"]["bytes"] >= 100_000_000
    assert iperf(h2, h1, "--bytes", "100M", "--reverse")["sum_received"]["bytes"] >= 100_000_000
    # Each worker has received and sent.
    for thread in router.cli_json("show runtime")["threads"]:
        calls = {node["name"]: node["vectors"] for node in thread["nodes"]}
        received = [packets for name, packets in calls.items() if name in ("virtio-input", "af-packet-input")]
        sent = [packets for name, packets in calls.items() if name.endswith("-tx")]
        assert sum(received) > 1000 and sum(sent) > 1000, thread


def test_a_queue_that_changes_hands_keeps_its_packets_in_order(two_workers):
    router, h1, h2 = two_workers
    assert h1.reaches("10.0.2.2")
    receiver, sender = h2.socket(SOCK_DGRAM, ("10.0.2.2", 4000)), h1.socket(SOCK_DGRAM)
    receiver.settimeout(2)
    packets, moves, seen = 4000, [], []

    def move():
        while "end" not in moves:
            for worker in (1, 0):
                router.batch("".join(f"set interface rx-placement {name} worker {worker}\n" for name in ("e0", "e1")))
            moves.append("moved")

    mover = threading.Thread(target=move, daemon=True)
    mover.start()

    def receive():
        while len(seen) < packets:
            try:
                seen.append(struct.unpack("!I", receiver.recv(100))[0])
            except TimeoutError:
                return

    listener = threading.Thread(target=receive, daemon=True)
    listener.start()
    try:
        for number in range(packets):
            sender.sendto(struct.pack("!I", number), ("10.0.2.2", 4000))
            time.sleep(0.0005)
        listener.join()
    finally:
        moves.append("end")
        mover.join()
    assert len(moves) > 10
    assert seen == sorted(seen), "order is kept"
    assert len(seen) == packets, "none is lost"


def test_an_interface_may_go_while_its_queue_changes_hands(lab):
    router = lab.router(extra=TWO)
    for number in range(30):
        router.cli("create tap id 7 name t7")
        router.cli("set interface state t7 up")
        router.cli(f"set interface rx-placement t7 worker {number % 2}")
        router.cli(f"set interface rx-placement t7 worker {(number + 1) % 2}")
        router.cli("delete interface t7")
    with pytest.raises(CommandFailed, match="no worker 2: there are 2"):
        router.cli("create tap id 8 name t8")
        router.cli("set interface rx-placement t8 worker 2")


def test_two_idle_workers_rest_and_wake(two_workers):
    router, h1, _ = two_workers
    assert h1.reaches("10.0.2.2", count=100, interval=0.002)
    wait_until(
        lambda: all(thread["state"] == "asleep" for thread in router.cli_json("show threads")["threads"][1:]),
        "both workers sleep",
    )
    before = router.cpu_seconds()
    time.sleep(2)
    assert router.cpu_seconds() - before < 0.2
    for _ in range(20):
        time.sleep(0.05)
        assert h1.reaches("10.0.2.2", count=1, wait=1)
