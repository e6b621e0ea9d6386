"""A training loop of one's own, recorded with one line a step.

python examples/own_loop.py runs/loop
"""

import sys

import torch
from torch import nn

from grpodyn import Recorder, open_run


def main(run_dir: str) -> None:
    """Fit a small network to a product, with gradients accumulated over two micro-batches."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    with Recorder(run_dir).attach(model, optimizer, max_steps=50) as recorder:
        for _ in range(50):
            optimizer.zero_grad()
            for _ in range(2):
                inputs = torch.rand(16, 2)
                loss = (model(inputs) - inputs.prod(1, keepdim=True)).square().mean() / 2
                loss.backward()
            optimizer.step()
            recorder.step({"loss": 2 * loss.item()})

    run = open_run(recorder.run_dir)
    last = run.tensors.isel(row=-1)
    for name, moved in zip(last["tensor"].values, last["delta_norm"].values, strict=True):
        sys.stdout.write(f"{name:10}  ‖W − W_0‖ = {moved:.3f}\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/loop")
