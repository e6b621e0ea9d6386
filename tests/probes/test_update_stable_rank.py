"""`update_stable_rank`: in how many directions a tensor moves in one step, compared with the strongest one.

What it shares with other ranks is tested in test_rank_probes.
"""

import numpy as np
import pytest

from grpodyn import registry
from grpodyn.probe import Need


def compute(values) -> float:
    return registry.probe("update_stable_rank").compute(np.asarray(values, dtype=float))


def test_golden():
    # (16 + 4 + 1)/16, and 1 of a step of rank 1.
    assert compute([4, 2, 1]) == pytest.approx(1.3125)
    assert compute([2.0, 0.0, 0.0]) == pytest.approx(1.0)


def test_declares():
    probe = registry.probe("update_stable_rank")
    assert (probe.group, probe.dims, probe.needs) == ("spectra", ("row", "tensor"), {Need.STEP})
