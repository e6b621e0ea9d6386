"""`stable_rank`: the squared Frobenius norm over the squared spectral norm.

What it shares with other ranks is tested in test_rank_probes.
"""

import numpy as np
import pytest

from grpodyn import registry


def compute(values) -> float:
    return registry.probe("stable_rank").compute(np.asarray(values, dtype=float))


def test_golden():
    # (9 + 1)/9 and (16 + 4 + 1)/16.
    assert compute([3, 1]) == pytest.approx(10 / 9)
    assert compute([4, 2, 1]) == 1.3125
    assert compute([1, 1, 1, 1]) == 4.0


def test_declares():
    probe = registry.probe("stable_rank")
    assert (probe.group, probe.dims, probe.unit) == ("spectra", ("row", "tensor"), "1")
