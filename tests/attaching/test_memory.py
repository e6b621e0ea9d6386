"""Recording everything for thousands of steps takes no more memory late than early."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from grpodyn import Recorder, open_run
from grpodyn.config.record import RecordConfig

STEPS = 2000
BYTES_PER_STEP = 2048
"""The allocator's noise over 1,000 steps stays under it; one step's rows, kept, would be some thirty arrays."""


def resident_bytes() -> int:
    """Return the anonymous memory of this process: what it holds, not what files it maps."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    pytest.skip("this platform does not tell resident memory")


@pytest.mark.slow
def test_a33_resident_memory_does_not_grow(tmp_path: Path) -> None:
    """A33: the slope over the second half of 2,000 steps, with everything on, is below what keeping rows would take."""
    torch.manual_seed(0)
    net = nn.Sequential(*(nn.Linear(32, 32) for _ in range(4)))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    config = RecordConfig(preset="full", spectra_embeddings=True)
    samples: list[tuple[int, int]] = []
    with Recorder(tmp_path / "run", config).attach(net, optimizer) as recorder:
        for step in range(1, STEPS + 1):
            optimizer.zero_grad()
            net(torch.randn(4, 32)).square().mean().backward()
            optimizer.step()
            recorder.step({f"metric_{k}": float(step) for k in range(10)})
            if step % 25 == 0 and step > STEPS // 2:
                gc.collect()
                samples.append((step, resident_bytes()))
    steps, resident = np.array(samples, dtype=np.float64).T
    slope = float(np.polyfit(steps, resident, 1)[0])
    assert slope < BYTES_PER_STEP, f"{slope:.0f} bytes a step: {resident[0]:.0f} to {resident[-1]:.0f}"
    run = open_run(tmp_path / "run")
    assert run.tensors.step.values.tolist() == list(range(1, STEPS + 1))
    assert run.manifest.recorder["faults"] == {}
