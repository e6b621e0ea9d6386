"""Reward curves whose truth is known: what forecasts and stopping rules are tuned on and judged by.

Every number is drawn from a range stated here. Thresholds may be set on seeds 0–999; figures are reported on seeds
1000–1999. Half of the seeds carry residuals resampled from public traces instead of drawn noise.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TRACES = Path(__file__).parents[1] / "data" / "traces"

SHAPES = (
    "constant",
    "linear",
    "exponential",
    "logistic",
    "scalerl",
    "second_order",
    "late_riser",
    "collapse",
    "oscillating",
)
SATURATING = ("exponential", "logistic", "scalerl", "second_order")
HORIZON = (2.0, 10.0)
"""Length of a run in time constants."""
POINTS = (60, 300)
"""Logged points of a run, log-uniform."""
LOGGING_STEPS = (1, 1, 5, 10)
"""A logged point is the mean over so many steps."""
START = (0.02, 0.6)
GAIN = (0.15, 0.9)
"""Share of the way from the start to .98."""
AUTOCORRELATION = (0.0, 0.0, 0.3, 0.5)
"""AR(1) of the noise from step to step, before averaging."""
NOISE = (0.01, 0.12)
"""Standard deviation of a step's reward at p = .5, log-uniform; it shrinks with sqrt(p(1-p))."""
SAMPLES = (16, 32, 64, 128, 256)
"""Completions behind a step where the noise is binomial."""


@dataclass(frozen=True)
class SimulatedCurve:
    """One run: what was logged, and what is true."""

    shape: str
    seed: int
    step: NDArray[np.int64]
    """Optimizer step of each logged point."""
    value: Floats
    trials: Floats | None
    """Completions behind each value where rewards are 0 or 1; None where that is not known."""
    mean: Floats
    """True mean at each logged point."""
    final: float
    """True mean at the last step."""
    ceiling: float
    """Where the mean would go without an end; nan where it goes nowhere."""
    rise_begins: float
    """Step where a tenth of the rise is done; nan without a rise."""
    autocorrelation: float
    noise: str
    """`binomial`, `gaussian` or `resampled`."""
    logging_steps: int

    @property
    def max_steps(self) -> int:
        return int(self.step[-1])

    @property
    def saturates(self) -> bool:
        """Whether it ends within 1 % of its ceiling: a run that has something to save."""
        return self.final >= 0.99 * self.ceiling


def simulate(
    shape: str, seed: int, *, autocorrelation: float | None = None, logging_steps: int | None = None
) -> SimulatedCurve:
    """Return the curve of a shape and a seed; the same one every time."""
    rng = np.random.default_rng([seed, SHAPES.index(shape)])
    averaged = int(rng.choice(LOGGING_STEPS)) if logging_steps is None else logging_steps
    rho = float(rng.choice(AUTOCORRELATION)) if autocorrelation is None else autocorrelation
    points = round(_log_uniform(rng, *POINTS))
    steps = points * averaged
    time = np.arange(steps, dtype=float)
    mean, begins, ceiling = _mean(shape, time, rng)
    value, trials, noise = _observe(mean, rho, resampled=seed % 2 == 1, rng=rng)
    return SimulatedCurve(
        shape,
        seed,
        step=np.arange(1, points + 1) * averaged,
        value=_average(value, averaged),
        trials=None if trials is None else np.full(points, float(trials * averaged)),
        mean=_average(mean, averaged),
        final=float(mean[-1]),
        ceiling=ceiling,
        rise_begins=begins,
        autocorrelation=rho,
        noise=noise,
        logging_steps=averaged,
    )


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _average(values: Floats, over: int) -> Floats:
    return values.reshape(-1, over).mean(axis=1)


def _mean(shape: str, time: Floats, rng: np.random.Generator) -> tuple[Floats, float, float]:
    """Return the mean reward per step, where its rise begins, and its ceiling."""
    length = len(time)
    start = rng.uniform(*START)
    gain = rng.uniform(*GAIN) * (0.98 - start)
    constant = length / rng.uniform(*HORIZON)
    share = _share(shape, time, constant, rng)
    mean = start + gain * share
    if shape == "collapse":
        onset, speed = rng.uniform(0.4, 0.9) * length, rng.uniform(0.03, 0.15) * length
        left = rng.uniform(0.0, 0.5)
        fall = 1 - (1 - left) * (1 - np.exp(-np.clip(time - onset, 0, None) / speed))
        mean = mean * fall
    if shape == "oscillating":
        period = rng.uniform(0.1, 0.4) * length
        swing = rng.uniform(0.03, 0.12) * np.sin(2 * np.pi * (time / period + rng.uniform()))
        mean = np.clip(mean + swing, 0.0, 1.0)
    if shape == "constant":
        return np.full(length, rng.uniform(0.02, 0.95)), float("nan"), float("nan")
    begins = float(np.argmax(share >= share[0] + 0.1 * (share[-1] - share[0]))) + 1
    return mean, begins, start + gain if shape in (*SATURATING, "late_riser") else float("nan")


def _share(shape: str, time: Floats, constant: float, rng: np.random.Generator) -> Floats:
    """Return the share of the gain reached at each step; `constant` is the time constant in steps."""
    length = len(time)
    if shape == "linear":
        return time / length
    if shape == "logistic":
        middle, steepness = rng.uniform(0.1, 0.45) * length, 2 / constant
        return 1 / (1 + np.exp(-steepness * (time - middle)))
    if shape == "late_riser":
        middle, steepness = rng.uniform(0.55, 0.85) * length, rng.uniform(15, 40) / length
        return 1 / (1 + np.exp(-steepness * (time - middle)))
    if shape == "scalerl":
        return 1 / (1 + (constant / (time + 1)) ** rng.uniform(1.0, 3.0))
    if shape == "second_order":
        slow = 1 / constant
        fast = slow * rng.uniform(1.05, 10)
        return 1 - (fast * np.exp(-slow * time) - slow * np.exp(-fast * time)) / (fast - slow)
    return 1 - np.exp(-time / constant)


def _observe(mean: Floats, rho: float, *, resampled: bool, rng: np.random.Generator) -> tuple[Floats, int | None, str]:
    """Return the reward of each step, the completions behind it where known, and the kind of noise."""
    if not resampled and rho == 0.0:
        samples = int(rng.choice(SAMPLES))
        return rng.binomial(samples, mean) / samples, samples, "binomial"
    innovations = rng.choice(public_residuals(), len(mean)) if resampled else rng.standard_normal(len(mean))
    noise = np.empty(len(mean))
    previous = innovations[0]
    for i, innovation in enumerate(innovations):
        previous = rho * previous + np.sqrt(1 - rho**2) * innovation if i else innovation
        noise[i] = previous
    spread = _log_uniform(rng, *NOISE) * 2 * np.sqrt(np.clip(mean * (1 - mean), 1e-3, None))
    return np.clip(mean + spread * noise, 0.0, 1.0), None, "resampled" if resampled else "gaussian"


@cache
def public_residuals() -> Floats:
    """Return residuals of the public traces about their level, each trace scaled to unit variance, pooled."""
    return np.concatenate([(residual - residual.mean()) / residual.std() for residual in _residuals()])


def _residuals() -> list[Floats]:
    lines = (TRACES / "arithmetic_lora_100.metrics.jsonl").read_text().splitlines()
    log = (TRACES / "tool_calls_100_rising.log").read_text()
    flat = [
        json.loads((TRACES / name).read_text())["reward_trace"]
        for name in ("gsm8k_llama8b_flat.json", "gsm8k_qwen3_8b_flat.json")
    ]
    return [
        # After the rise of the first steps it stays at its ceiling.
        np.array([json.loads(line)["env/all/reward/total"] for line in lines])[6:],
        *(np.array(trace) for trace in flat),
        np.array([float(value) for value in re.findall(r"reward=([\d.]+)", log)]),
    ]
