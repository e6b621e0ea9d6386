"""`effective_rank`: the exponential of the entropy of the singular values.

What it shares with other ranks is tested in test_rank_probes.
"""

import numpy as np
import pytest

from grpodyn import registry


def compute(values) -> float:
    return registry.probe("effective_rank").compute(np.asarray(values, dtype=float))


def test_golden():
    assert compute([1, 1, 1, 1]) == pytest.approx(4.0)
    # p = (3/4, 1/4): exp(3/4·ln 4/3 + 1/4·ln 4) = 4/3^(3/4).
    assert compute([3, 1]) == pytest.approx(4 / 3**0.75)
    # p = (4, 2, 1)/7: exp(ln 7 − (4 ln 4 + 2 ln 2)/7) = 7/2^(10/7).
    assert compute([4, 2, 1]) == pytest.approx(7 / 2 ** (10 / 7))


def test_values_of_the_literature():
    assert (round(compute([3, 1]), 6), round(compute([4, 2, 1]), 6)) == (1.754765, 2.60049)


def test_declares():
    probe = registry.probe("effective_rank")
    assert (probe.group, probe.dims, probe.unit) == ("spectra", ("row", "tensor"), "1")
