"""`grad_snr` of a run against every gradient of its windows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from grpodyn import Recorder, open_run
from grpodyn.config.record import RecordConfig


def test_windows_of_a_run(tmp_path: Path, make_trainer, watcher):
    config = RecordConfig(probes=["grad_snr", "grad_norm"], every={"grad_snr": 3})
    make_trainer(callbacks=[watcher, Recorder(tmp_path / "run", config)], max_steps=7).train()
    run = open_run(tmp_path / "run")
    assert run.manifest.recorder["faults"] == {}
    recorded = run.tensors["grad_snr"]
    finite = recorded["step"].values[np.isfinite(recorded.values).any(1)].tolist()
    # The first step has nothing to differ from, nor has the last one, whose window began at step 7.
    assert finite == [3, 6]
    for step, window in ((3, slice(0, 3)), (6, slice(3, 6))):
        for name in watcher.start:
            if watcher.start[name].numel() > 1024:
                continue
            g = torch.stack([gradients[name].double().reshape(-1) for gradients in watcher.gradients[window]]).numpy()
            noise = g.var(axis=0, ddof=1).sum()
            value = float(recorded.sel(tensor=name).values[recorded["step"].values == step][0])
            expected = ((g.mean(axis=0) ** 2).sum() - noise / len(g)) / noise
            assert value == pytest.approx(expected, rel=1e-4, abs=1e-6), (name, step)
