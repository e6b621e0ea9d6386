"""Activation checkpointing runs blocks again in the backward pass: nothing that is recorded counts it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from grpodyn import Recorder, open_run
from grpodyn.config.record import RecordConfig

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class Counted(nn.Module):
    """Counts the forwards of a projection, those of the recomputation included."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.calls = 0
        model.model.layers[0].self_attn.q_proj.register_forward_hook(self._count)

    def _count(self, *_: object) -> None:
        self.calls += 1


def record(run_dir: Path, make_trainer, make_model, reentrant: bool | None):
    model = make_model()
    counted = Counted(model)
    arguments = {} if reentrant is None else {
        "gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": reentrant}
    }  # fmt: skip
    trainer = make_trainer(
        model=model,
        callbacks=[Recorder(run_dir, RecordConfig(preset="full", activation_prompts=["1+2=", "3+4="]))],
        max_steps=2,
        **arguments,
    )
    trainer.train()
    return open_run(run_dir), model, counted.calls


@pytest.mark.parametrize("reentrant", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a21_recomputed_forwards_are_counted_nowhere(tmp_path: Path, make_trainer, make_model, reentrant: bool) -> None:
    """A21: hooks fire again during the recomputation; every probe says what it says without checkpointing."""
    plain, _, plain_calls = record(tmp_path / "plain", make_trainer, make_model, None)
    again, model, calls = record(tmp_path / "again", make_trainer, make_model, reentrant)
    assert calls > plain_calls, "the blocks really ran again"
    for group in ("tensors", "layers", "spectra"):
        one, other = getattr(plain, group), getattr(again, group)
        assert set(one.data_vars) == set(other.data_vars)
        for name in one.data_vars:
            np.testing.assert_allclose(other[name].values, one[name].values, rtol=1e-4, atol=1e-7, err_msg=name)
    assert np.isfinite(again.layers["activation_shift"].values).any()
    # transformers leaves hooks of its own.
    hooks = [hook for module in model.modules() for own in HOOKS for hook in getattr(module, own).values()]
    assert hooks
    assert not [hook for hook in hooks if hook.__module__.startswith("grpodyn")]
    assert torch.isfinite(next(model.parameters())).all()
