"""A router without traffic leaves the processor alone. (`make figures` measures it on the
release build; this is coarse on purpose.)"""

import time

import pytest


@pytest.mark.slow
def test_an_idle_router_rests_after_traffic(two_hosts):
    router, h1, _ = two_hosts
    assert h1.reaches("10.0.2.2", count=100, interval=0.02)
    time.sleep(0.3)
    before = router.cpu_seconds()
    time.sleep(2)
    assert router.cpu_seconds() - before < 0.2


def test_a_resting_router_wakes_for_a_packet(two_hosts):
    router, h1, _ = two_hosts
    assert h1.reaches("10.0.2.2")
    for _ in range(3):
        time.sleep(0.5)
        assert h1.reaches("10.0.2.2", count=1, wait=1)
