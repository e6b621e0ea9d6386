"""What recording is measured against: a naive recorder, `wandb.watch`, and the bytes that have to be read."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
import transformers


class NaiveRecorder(transformers.TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """What one writes first: a copy of all weights, norms by `.norm()`, `svdvals` of every difference at the end."""

    def __init__(self, spectra: bool) -> None:
        self._spectra = spectra
        self._before: dict[str, torch.Tensor] = {}
        self._start: dict[str, torch.Tensor] = {}
        self.rows: list[dict[str, float]] = []
        self.seconds: list[float] = []
        """CPU seconds, one a step; the last holds the spectra."""

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Copy everything twice."""
        self._start = {name: value.detach().clone() for name, value in _trained(model)}
        self._before = {name: value.clone() for name, value in self._start.items()}

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Norms of the gradients."""
        begun = time.process_time()
        self.rows.append({f"grad/{name}": float(p.grad.norm()) for name, p in _trained(model) if p.grad is not None})
        self.seconds.append(time.process_time() - begun)

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Norms of the step and of the displacement; the copies are made anew."""
        begun = time.process_time()
        row = self.rows[-1]
        for name, value in _trained(model):
            row[f"update/{name}"] = float((value.detach() - self._before[name]).norm())
            row[f"delta/{name}"] = float((value.detach() - self._start[name]).norm())
            self._before[name] = value.detach().clone()
        if self._spectra and state.global_step == state.max_steps:
            for name, value in _trained(model):
                if value.ndim == 2 and "embed" not in name:
                    row[f"svd/{name}"] = float(torch.linalg.svdvals(value.detach() - self._start[name]).sum())
        self.seconds[-1] += time.process_time() - begun


class WandbWatch(transformers.TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """`wandb.watch(model, log="all")` offline, logging every step."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._run: Any = None

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Start an offline run that watches."""
        import wandb  # noqa: PLC0415  # optional: the arm is left out where it is not installed

        self._folder.mkdir(parents=True, exist_ok=True)
        settings = wandb.Settings(console="off", silent=True, x_disable_stats=True)
        self._run = wandb.init(mode="offline", dir=str(self._folder), project="bench", settings=settings)
        self._run.watch(model, log="all", log_freq=1)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Log, which is what writes the histograms."""
        self._run.log({"step": state.global_step})

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Close the run."""
        self._run.finish()


def wandb_is_there() -> bool:
    """Return whether the arm can be run."""
    try:
        import wandb  # noqa: F401, PLC0415
    except ImportError:
        return False
    return True


def _trained(model: Any) -> list[tuple[str, torch.Tensor]]:
    return [(name, p) for name, p in model.named_parameters() if p.requires_grad]


def read_seconds_per_gigabyte() -> float:
    """Return the CPU seconds that one thread takes to read a gigabyte from memory: the best of five sums of 512 MB."""
    block = torch.ones(2**27)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        seconds = []
        for _ in range(5):
            begun = time.thread_time()
            block.sum()
            seconds.append(time.thread_time() - begun)
    finally:
        torch.set_num_threads(threads)
    return min(seconds) / (block.numel() * 4 / 1e9)
