"""DeepSpeed ZeRO-3, against a stand-in: DeepSpeed itself has not run here (docs/distributed.md says so)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from grpodyn import registry
from grpodyn.recording.loop import Loop
from tests.distributed.comparing import GROUPS, check_equal, faults, read

NOT_UNDER_ZERO3 = {
    "grad_norm": "the engine clears gradients before a callback runs",
    "grad_snr": "the same",
    "update_norm_intended": "the engine's optimizer keeps its state in partitions of its own",
    "update_applied_fraction": "the same",
    "activation_shift": "forwards beside the engine's own have never been tried",
}
"""Probes that have no values there, and why."""


@pytest.mark.slow
def test_a13_partitions_are_measured_as_one_process_would(two_more: tuple[Path, str], alone: Path):
    """A13: parameters are of size 0, and gathering on the first rank alone would hang."""
    recorded, one = read(two_more[0], "zero3"), read(alone, "one")
    assert recorded.status == "finished"
    assert check_equal(recorded, one, without=tuple(NOT_UNDER_ZERO3)) > 500
    for name in set(registry.probes()) - set(NOT_UNDER_ZERO3):
        assert np.isfinite(getattr(recorded, registry.probe(name).group)[name].values).any()
    for name in NOT_UNDER_ZERO3:
        assert np.isnan(getattr(recorded, registry.probe(name).group)[name].values).all()
    skipped = {entry["what"]: entry["why"] for entry in recorded.manifest.recorder["skipped"]}
    assert {"update_norm_intended", "update_applied_fraction", "activation_shift"} <= set(skipped)
    assert "a forward of one rank alone would wait" in skipped["activation_shift"]


@pytest.mark.slow
def test_a12_gradients_that_no_event_shows_are_nan_with_the_reason(two_more: tuple[Path, str]):
    """A12: by the time that a callback runs, the engine has stepped and cleared them."""
    recorded = read(two_more[0], "zero3")
    assert (1, "gradients hidden") in faults(recorded)
    (why,) = [event["why"] for event in recorded.events if event["what"] == "gradients hidden"]
    assert "DeepSpeed takes its step" in why
    # The step was not missed for that: W_(t-1) was read before it.
    assert (recorded.tensors["update_norm"].values[:, recorded.tensors.kind.values == "linear"] > 0).all()


@pytest.mark.slow
def test_a13_without_the_package_nothing_is_a_zero(two_more: tuple[Path, str]):
    recorded = read(two_more[0], "zero3-absent")
    assert recorded.status == "finished"
    for group in GROUPS:
        data = getattr(recorded, group)
        assert not any((data[name].values == 0).any() for name in data.data_vars)
    reasons = [entry["why"] for entry in recorded.manifest.recorder["skipped"]]
    assert "sharded by DeepSpeed ZeRO-3: this rank holds (0,) of (16, 48)" in reasons
    assert recorded.metrics["values"].sizes["row"] == 3


def test_an_optimizer_of_deepspeed_is_not_hooked() -> None:
    """Its weights change after the optimizer inside has stepped: each update would pass for 0."""
    optimizer = type("DeepSpeedZeroOptimizer", (), {"__module__": "deepspeed.runtime.zero.stage3"})()
    with pytest.raises(TypeError, match="train with a Trainer"):
        Loop(torch.nn.Linear(1, 1), 0, lambda where, action: None).watch(optimizer)


@pytest.mark.slow
def test_partitions_that_are_not_what_they_are_taken_for_are_refused(two_more: tuple[Path, str]):
    """Each is held against the whole that DeepSpeed gathers, before anything is read from it."""
    folder, said = two_more
    assert "is not that range of the gathered parameter" in said
    recorded = read(folder, "zero3-wrong")
    assert recorded.status == "finished"
    assert recorded.tensors.sizes["tensor"] == 0
    assert any("ZeRO-3" in entry["why"] for entry in recorded.manifest.recorder["skipped"])
