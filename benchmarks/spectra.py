"""Spectra of every matrix of a 0.5B-shaped model, against `torch.linalg.svdvals` matrix by matrix on the same cores.

    python benchmarks/spectra.py                  # 4 of 24 layers, under two minutes on 2 cores
    python benchmarks/spectra.py --layers 24      # the whole model

Both sides take turns, layer by layer, and the fastest layer of each counts, so that a busy machine harms neither. The
baseline is float32 `svdvals` with all threads, one matrix after another; ours are workers with one thread each, as in a
recording. Errors are against float64 `svdvals`. Dense deltas are of two kinds: full rank with a power-law spectrum, as
training leaves them, and rank 8 up to rounding, whose floor a Gram matrix alone would lose.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from grpodyn.spectra.lowrank import LowRank, difference
from grpodyn.spectra.ranks import effective_rank, energy_rank, stable_rank
from grpodyn.spectra.singular import singular_values

# Qwen2.5-0.5B: hidden 896, two key-value heads of 64, intermediate 4864, 24 layers.
SHAPES = {
    "q_proj": (896, 896),
    "k_proj": (128, 896),
    "v_proj": (128, 896),
    "o_proj": (896, 896),
    "gate_proj": (4864, 896),
    "up_proj": (4864, 896),
    "down_proj": (896, 4864),
}
FloatArray = NDArray[np.float64]


def power_law(shape: tuple[int, int], generator: torch.Generator) -> Tensor:
    """Return a float32 delta whose singular values fall from 1 like 1/i, the size of a delta after some RL steps."""
    rank = min(shape)
    left, right = (torch.linalg.qr(torch.randn(n, rank, generator=generator)).Q for n in shape)
    delta: Tensor = 1e-3 * (left / torch.arange(1, rank + 1)) @ right.T
    return delta


def rank_8(shape: tuple[int, int], generator: torch.Generator) -> Tensor:
    """Return a float32 delta of rank 8 up to rounding; its Gram matrix is singular."""
    m, n = shape
    return 1e-3 * torch.randn(m, 8, generator=generator) @ torch.randn(8, n, generator=generator)


def lora(shape: tuple[int, int], generator: torch.Generator) -> LowRank:
    """Return the movement of an r = 16 adapter since a step in mid-run: stacked factors of 32 directions."""
    m, n = shape
    b, a = 1e-3 * torch.randn(m, 16, generator=generator), torch.randn(16, n, generator=generator)
    step_b, step_a = (1e-5 * torch.randn(x.shape, generator=generator) for x in (b, a))
    return difference(b + step_b, a + step_a, b, a, scale=2.0)


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return wall and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def relative_error(found: FloatArray, exact: FloatArray) -> float:
    """Return the largest relative error of the singular values that stand out of rounding, and of the three ranks."""
    large = exact > 1e-10 * exact[0]
    ranks = [(effective_rank(s), stable_rank(s), energy_rank(s, 0.9)) for s in (found, exact)]
    return max(
        float(np.abs(found[large] / exact[large] - 1.0).max()),
        float(np.abs(np.array(ranks[0]) / np.array(ranks[1]) - 1.0).max()),
    )


class Comparison:
    """Wall and CPU seconds of both sides, layer by layer."""

    def __init__(self, name: str, workers: int) -> None:
        self.name = name
        self.workers = workers
        self.baseline: list[tuple[float, float]] = []
        self.ours: list[tuple[float, float]] = []
        self.error = 0.0

    def layer(self, dense: Sequence[Tensor], measured: Sequence[Tensor | LowRank], pool: ThreadPoolExecutor) -> None:
        """Add one layer: the baseline on `dense`, ours on `measured`."""
        torch.set_num_threads(self.workers)
        self.baseline.append(timed(lambda: [torch.linalg.svdvals(x) for x in dense]))
        torch.set_num_threads(1)
        self.ours.append(timed(lambda: list(pool.map(singular_values, measured))))

    def check(self, measured: Sequence[Tensor | LowRank], dense: Sequence[Tensor]) -> None:
        """Compare with float64 `svdvals` of the tall orientation, which has the same values and is faster."""
        torch.set_num_threads(self.workers)
        for x, matrix in zip(measured, dense, strict=True):
            tall = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
            exact = torch.linalg.svdvals(tall.double()).numpy()
            self.error = max(self.error, relative_error(singular_values(x), exact))

    def __str__(self) -> str:
        baseline, ours = np.min(self.baseline, axis=0), np.min(self.ours, axis=0)
        wall, cpu = baseline / ours
        return (
            f"{self.name:<12} svdvals {baseline[0]:6.3f} s a layer, ours {ours[0]:6.4f} s: "
            f"{wall:5.1f} x faster ({cpu:5.1f} x in CPU seconds), largest relative error {self.error:.1e}"
        )


def main() -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=4, help="how many of the 24 layers (default 4)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="cores of both sides")
    options = parser.parse_args()

    generator = torch.Generator().manual_seed(0)
    pool = ThreadPoolExecutor(options.workers, initializer=torch.set_num_threads, initargs=(1,))
    comparisons = {name: Comparison(name, options.workers) for name in ("power law", "rank 8", "LoRA r = 16")}
    for layer in range(options.layers):
        for name, make in (("power law", power_law), ("rank 8", rank_8)):
            matrices = [make(shape, generator) for shape in SHAPES.values()]
            comparisons[name].layer(matrices, matrices, pool)
            if layer == 0:
                comparisons[name].check(matrices, matrices)
        factors = [lora(shape, generator) for shape in SHAPES.values()]
        # The dense product is given to the baseline for free; float64, so that it is the same matrix.
        products = [x.left @ x.right for x in factors]
        comparisons["LoRA r = 16"].layer([x.float() for x in products], factors, pool)
        if layer == 0:
            comparisons["LoRA r = 16"].check(factors, products)
    print(f"{options.layers} layers of {len(SHAPES)} matrices, {options.workers} cores; the fastest layer of each side")
    for comparison in comparisons.values():
        print(comparison)


if __name__ == "__main__":
    main()
