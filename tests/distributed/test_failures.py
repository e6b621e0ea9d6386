"""Whatever fails on one rank: it is nan where it is missing, all else is recorded, and nobody waits for ever."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.distributed.comparing import check_equal, check_same_weights, faults, read


def test_a_part_that_a_rank_cannot_send(two: Path, alone: Path):
    """In a spectral sweep: the one matrix is nan, and its update, which another message brings, is not."""
    recorded, one = read(two, "fsdp2-part"), read(alone, "one")
    assert faults(recorded) == [(1, "not put together")]
    assert recorded.status == "finished"
    missing = np.isnan(recorded.spectra.spectral_shift.values) != np.isnan(one.spectra.spectral_shift.values)
    missing |= np.isnan(recorded.spectra.effective_rank.values) != np.isnan(one.spectra.effective_rank.values)
    missing |= np.isnan(recorded.spectra.update_stable_rank.values) != np.isnan(one.spectra.update_stable_rank.values)
    assert missing.sum() == 1
    assert missing[0].sum() == 1
    check_equal(recorded, one, steps=(2, 3))
    check_same_weights(two, 2, "fsdp2-part", "fsdp2-plain")


@pytest.mark.slow
def test_gradients_that_a_rank_cannot_read(two_more: tuple[Path, str], alone: Path):
    recorded, one = read(two_more[0], "fsdp2-before"), read(alone, "one")
    assert faults(recorded) == [(2, "measurement failed on a rank"), (2, "not put together")]
    check_equal(recorded, one, steps=(1,))
    # The window of the gradients' moments was not touched by what failed after them.
    assert np.isnan(recorded.tensors["grad_norm"].values[1]).any()
    assert np.isfinite(recorded.tensors["grad_norm"].values[2]).all()
    np.testing.assert_allclose(recorded.tensors["delta_norm"], one.tensors["delta_norm"], rtol=1e-5, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "event", "group", "probe", "step"),
    [
        ("fsdp2-after", "measurement failed on a rank", "tensors", "delta_norm", 2),
        ("fsdp2-probe", "fault in grad_norm", "tensors", "grad_norm", 2),
        ("fsdp2-spectrum", "fault in effective_rank", "spectra", "effective_rank", 1),
        ("fsdp2-lora-factors", "not put together", "tensors", "delta_norm", 2),
    ],
)
def test_a_failure_is_nan_where_it_was(two_more: tuple[Path, str], alone: Path, way, event, group, probe, step):
    recorded, one = read(two_more[0], way), read(alone, "one-lora" if "lora" in way else "one")
    assert faults(recorded) == [(step, event)]
    assert recorded.status == "finished"
    ours, theirs = getattr(recorded, group)[probe].values, getattr(one, group)[probe].values
    lost = np.isnan(ours) != np.isnan(theirs)
    assert lost[step - 1].any()
    assert lost.sum() == lost[step - 1].sum()
    check_equal(recorded, one, steps=tuple(other for other in (1, 2, 3) if other != step))


@pytest.mark.slow
def test_the_first_rank_fails_in_a_sweep(two_more: tuple[Path, str], alone: Path):
    """It lets the others go, and the sweep goes on at the next step."""
    recorded, one = read(two_more[0], "fsdp2-first"), read(alone, "one")
    assert faults(recorded) == [(1, "fault in after the optimizer"), (2, "spectral sweep skipped")]
    assert recorded.spectra.step.values.tolist() == [1, 3]
    for name in one.spectra.data_vars:
        np.testing.assert_allclose(recorded.spectra[name][1], one.spectra[name][2], rtol=1e-5, atol=1e-10)
    np.testing.assert_allclose(recorded.tensors["grad_norm"], one.tensors["grad_norm"], rtol=1e-5)


@pytest.mark.slow
def test_a_recorder_on_one_rank_alone_does_not_wait_for_ever(two_more: tuple[Path, str]):
    folder, said = two_more
    assert "start the recorder on every rank" in said
    recorded = read(folder, "fsdp2-alone")
    assert recorded.status == "finished"
    assert {"sharded: a DTensor, of which this rank holds a part"} <= {
        entry["why"] for entry in recorded.manifest.recorder["skipped"]
    }
