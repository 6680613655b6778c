"""A few rounds of harm to the Linux control plane, with few routes. `linux_rounds.py` runs more, with more."""

import shutil

import pytest

from linux_rounds import Rounds

pytestmark = pytest.mark.skipif(not shutil.which("bird"), reason="needs the package bird2")


def test_after_each_round_of_harm_the_router_has_what_linux_has(lab, tmp_path):
    rounds = Rounds(lab, tmp_path, 3000, 1000)
    for kind in [*Rounds.KINDS, Rounds.kill_router]:
        kind(rounds)
        rounds.settle(True)
        assert rounds.host.reaches("198.51.100.1"), kind.__name__
