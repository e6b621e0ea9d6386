"""Logs of GRPO runs whose faults are known: what the diagnosis is tuned on and judged by.

A run is drawn from prompts with solve rates, groups of completions, lengths under a cap, and trainer scalars that
follow from them under TRL's names. A healthy run draws every number from the ranges stated here; a fault changes one
thing from a known step on. Written before the rules that are judged on it, and it knows nothing of them but their
names.

Thresholds are set on seeds 0–999; figures are reported on seeds 1000–1999.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STEPS = (60, 500)
"""Optimizer steps of a run, log-uniform."""
PROMPTS = (4, 8, 16, 32)
GROUPS = (4, 8, 8, 16)
START, END = (0.05, 0.6), (0.3, 0.99)
"""Solve rate at the start and at the end."""
SPREAD = (0.3, 2.0)
"""Standard deviation over prompts of the solve rate's logit."""
ENTROPY = (0.15, 1.5)
"""Nats a token at the start."""
LENGTH = (20.0, 800.0)
"""Tokens of a completion at the start."""
GRADIENT = (0.05, 3.0)
GRADIENT_NOISE = (0.15, 0.6)
"""Standard deviation of the log of the gradient's norm."""
SHAPES = ("flat", "linear", "saturating", "saturating", "sigmoid", "late")


@dataclass(frozen=True)
class Tensors:
    """Per-tensor probes of a run: name -> (row, tensor)."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    sources: tuple[str, ...]
    dtype: str
    steps: NDArray[np.int64]
    probes: dict[str, Floats]


@dataclass(frozen=True)
class SimulatedRun:
    """What a trainer would have logged, and what is true of it."""

    scenario: str
    seed: int
    steps: NDArray[np.int64]
    columns: dict[str, Floats]
    """TRL's key -> value per row; nan is missing."""
    settings: dict[str, Any]
    lora: dict[str, Any] | None = None
    dtype: str = "float32"
    parameters: int = 500_000_000
    weights: dict[str, float] = field(default_factory=dict)
    evaluations: dict[int, dict[str, float]] = field(default_factory=dict)
    rewards: Floats | None = None
    """(row, prompt, generation, part), where rollouts were recorded."""
    lengths: Floats | None = None
    terminated: Floats | None = None
    tensors: Tensors | None = None
    spectra: Tensors | None = None
    truncation: dict[int, tuple[float, float, float]] | None = None
    """rank -> accuracy (value, low, high) of the run's change truncated to that rank."""
    status: str = "finished"
    expected: frozenset[str] = frozenset()
    """What must be found."""
    allowed: frozenset[str] = frozenset()
    """What is true as well, or follows from the fault."""
    onset: int | None = None
    """The step from which the fault is there."""


@dataclass
class Draft:
    """A run in the making: curves over steps, which a fault may bend before anything is sampled from them."""

    rng: np.random.Generator
    seed: int
    n: int
    prompts: int
    group: int
    solve: Floats
    spread: float
    formatted: Floats | None
    length: Floats
    wrong_length: Floats
    """Length of wrong completions over that of right ones."""
    cap: int
    entropy: Floats
    kl: Floats | None
    gradient: Floats
    gradient_noise: float
    settings: dict[str, Any]
    lora: dict[str, Any] | None
    rate: Floats
    task_value: float = 1.0
    format_value: float = 0.5
    parts_oppose: bool = False
    ratio: Floats | None = None
    logp_difference: Floats | None = None
    with_rollouts: bool = True
    logging: int = 1
    allowed: set[str] = field(default_factory=set)
    expected: set[str] = field(default_factory=set)
    onset: int | None = None
    after: list[Callable[[SimulatedRun], SimulatedRun]] = field(default_factory=list)

    @property
    def time(self) -> Floats:
        """0 at the first step, 1 at the last."""
        return np.linspace(0.0, 1.0, self.n)

    def from_onset(self, low: float = 0.25, high: float = 0.5) -> Floats:
        """Draw an onset; return 0 before it and the share of the rest that has passed after it."""
        at = int(self.n * self.rng.uniform(low, high))
        self.onset = at + 1
        return np.clip((np.arange(self.n) - at) / max(1, self.n - at), 0.0, 1.0)


def _uniform(rng: np.random.Generator, bounds: tuple[float, float]) -> float:
    return float(rng.uniform(*bounds))


def _log_uniform(rng: np.random.Generator, bounds: tuple[float, float]) -> float:
    return float(math.exp(rng.uniform(math.log(bounds[0]), math.log(bounds[1]))))


def curve(rng: np.random.Generator, shape: str, time: Floats, start: float, end: float) -> Floats:
    """Return a solve rate over time of one of the shapes that healthy runs have."""
    if shape == "flat":
        return np.full_like(time, start)
    if shape == "linear":
        way = time
    elif shape == "saturating":
        way = 1 - np.exp(-time * rng.uniform(2.0, 10.0))
    elif shape == "sigmoid":
        way = 1 / (1 + np.exp(-rng.uniform(8.0, 20.0) * (time - rng.uniform(0.2, 0.5))))
    else:
        way = np.clip((time - rng.uniform(0.3, 0.6)) / 0.3, 0.0, 1.0)
    return start + (end - start) * way


def draft(seed: int) -> Draft:
    """Draw a healthy run."""
    rng = np.random.default_rng([20260, seed])
    n = round(_log_uniform(rng, STEPS))
    time = np.linspace(0.0, 1.0, n)
    start = _uniform(rng, START)
    end = max(start, _uniform(rng, END))
    shape = str(rng.choice(SHAPES))
    solve = curve(rng, shape, time, start, end)
    # Entropy falls as the policy grows sure: all the way only where it has mastered the task.
    progress = (solve - start) / max(1e-9, 1 - start)
    entropy = _log_uniform(rng, ENTROPY) * (1 - rng.uniform(0.4, 0.8) * progress) * (1 + rng.uniform(-0.2, 0.3) * time)
    beta = float(rng.choice([0.0, 0.0, 0.001, 0.02, 0.04]))
    iterations = int(rng.choice([1, 1, 2, 4]))
    length = _log_uniform(rng, LENGTH)
    lengths = length * (1 + rng.uniform(-0.25, 0.35) * time * (1 if solve[-1] > solve[0] else 0.2))
    use_lora = bool(rng.random() < 0.5)
    peak = float(rng.choice([5e-6, 1e-5])) if use_lora else float(rng.choice([5e-7, 1e-6, 2e-6]))
    warmup = int(rng.choice([0, 5, 10]))
    rate = peak * np.minimum(1.0, (np.arange(n) + (warmup == 0)) / max(1, warmup))
    schedule = str(rng.choice(["constant", "linear", "cosine"]))
    rate *= {"constant": np.ones(n), "linear": 1 - time * 0.999, "cosine": 0.5 + 0.5 * np.cos(np.pi * time)}[schedule]
    kl = None
    if beta > 0:
        kl = _log_uniform(rng, (0.002, 0.1)) * np.sqrt(np.arange(1, n + 1) / n)
    return Draft(
        rng=rng,
        seed=seed,
        n=n,
        prompts=int(rng.choice(PROMPTS)),
        group=int(rng.choice(GROUPS)),
        solve=solve,
        spread=_uniform(rng, SPREAD),
        formatted=np.linspace(rng.uniform(0.4, 0.9), rng.uniform(0.9, 0.99), n) if rng.random() < 0.5 else None,
        length=lengths,
        wrong_length=np.full(n, rng.uniform(0.9, 1.4)),
        cap=int(length * rng.uniform(3.0, 6.0)) + 8,
        entropy=entropy,
        kl=kl,
        gradient=np.full(n, _log_uniform(rng, GRADIENT)),
        gradient_noise=_uniform(rng, GRADIENT_NOISE),
        settings={
            "beta": beta,
            "num_iterations": iterations,
            "learning_rate": peak,
            "lr_scheduler_type": schedule,
            "warmup_steps": warmup,
            "max_steps": n,
            "temperature": 1.0,
            "loss_type": str(rng.choice(["dapo", "grpo", "dr_grpo"])),
        },
        lora={"r": 16, "lora_alpha": 32, "target_modules": "all-linear"} if use_lora else None,
        rate=rate,
        with_rollouts=bool(rng.random() < 0.5),
        ratio=np.full(n, rng.uniform(0.97, 1.0)) if rng.random() < 0.3 else None,
        logging=int(rng.choice([1, 1, 1, 5])),
    )


def sample(d: Draft, scenario: str) -> SimulatedRun:
    """Sample the completions of a draft, and log what a trainer would."""
    d.settings |= {"num_generations": d.group, "max_completion_length": d.cap, "logging_steps": d.logging}
    rng, shape = d.rng, (d.n, d.prompts, d.group)
    logit = np.log(np.clip(d.solve, 1e-9, 1 - 1e-9) / np.clip(1 - d.solve, 1e-9, 1.0))
    # Centred so that the mean over prompts stays near the curve whatever the spread.
    shrink = math.sqrt(1 + 0.346 * d.spread**2)
    rates = 1 / (1 + np.exp(-(logit[:, None] * shrink + d.spread * rng.standard_normal(shape[:2]))))
    rates = np.where(d.solve[:, None] <= 0, 0.0, np.where(d.solve[:, None] >= 1, 1.0, rates))
    right = rng.random(shape) < rates[:, :, None]
    raw = d.length[:, None, None] * np.where(right, 1.0, d.wrong_length[:, None, None])
    raw = raw * np.exp(0.3 * rng.standard_normal(shape) - 0.045)
    clipped = raw >= d.cap
    right &= ~clipped
    lengths = np.minimum(np.ceil(raw), d.cap)
    parts = {"accuracy": d.task_value * right}
    if d.formatted is not None:
        followed = rng.random(shape) < d.formatted[:, None, None]
        if d.parts_oppose:
            followed = rng.random(shape) < np.where(right, 0.05, 0.9)
        parts["format"] = d.format_value * (followed & ~clipped)
    stacked = np.stack(list(parts.values()), axis=-1)
    columns = _columns(d, stacked, list(parts), lengths, clipped)
    truth = _truths(d, rates)
    if d.settings["beta"] > 0 and (columns["frac_reward_zero_std"] == 1).mean() > 0.05:
        truth.add("update_without_signal")
    columns, steps = _averaged(columns, d.logging)
    run = SimulatedRun(
        scenario,
        d.seed,
        steps,
        columns,
        d.settings,
        d.lora,
        weights=dict.fromkeys(parts, 1.0),
        rewards=stacked if d.with_rollouts else None,
        lengths=lengths if d.with_rollouts else None,
        terminated=(~clipped).astype(float) if d.with_rollouts else None,
        expected=frozenset(d.expected),
        allowed=frozenset(d.allowed | truth),
        onset=d.onset,
    )
    for change in d.after:
        run = change(run)
    return run


def _columns(d: Draft, rewards: Floats, names: list[str], lengths: Floats, clipped: Any) -> dict[str, Floats]:
    rng, n = d.rng, d.n
    total = rewards.sum(axis=-1)
    dead = np.ptp(total, axis=2) <= 1e-9
    mixed = 1 - dead.mean(axis=1)
    gradient = d.gradient * np.exp(d.gradient_noise * rng.standard_normal(n)) * np.sqrt(mixed)
    gradient *= np.where(rng.random(n) < 0.003, rng.uniform(3.0, 6.0, n), 1.0)
    if d.kl is not None:
        gradient = np.maximum(gradient, 0.02 * d.settings["beta"] * d.gradient)
    ended = np.where(clipped, np.nan, lengths).reshape(n, -1)
    any_ended = ~np.isnan(ended).all(axis=1)
    mean_ended = np.where(any_ended, np.nansum(ended, axis=1) / np.maximum(1, (~np.isnan(ended)).sum(axis=1)), 0.0)
    columns = {
        "reward": total.mean(axis=(1, 2)),
        "reward_std": total.std(axis=(1, 2)),
        "frac_reward_zero_std": dead.mean(axis=1),
        "completions/mean_length": lengths.mean(axis=(1, 2)),
        "completions/max_length": lengths.max(axis=(1, 2)),
        "completions/min_length": lengths.min(axis=(1, 2)),
        "completions/clipped_ratio": clipped.mean(axis=(1, 2)),
        "completions/mean_terminated_length": mean_ended,
        "entropy": d.entropy * np.exp(0.05 * rng.standard_normal(n)),
        "grad_norm": gradient,
        "learning_rate": d.rate,
    }
    for i, name in enumerate(names):
        columns[f"rewards/{name}/mean"] = rewards[..., i].mean(axis=(1, 2))
        columns[f"rewards/{name}/std"] = rewards[..., i].std(axis=(1, 2))
    loss = 0.02 * rng.standard_normal(n) * mixed
    if d.kl is not None:
        columns["kl"] = d.kl * np.exp(0.2 * rng.standard_normal(n))
        loss += d.settings["beta"] * columns["kl"]
    columns["loss"] = loss
    several = d.settings["num_iterations"] > 1
    columns["clip_ratio/region_mean"] = np.abs(0.003 * rng.standard_normal(n)) if several else np.zeros(n)
    if d.ratio is not None:
        columns["sampling/importance_sampling_ratio/mean"] = d.ratio + 0.005 * rng.standard_normal(n)
        difference = d.logp_difference if d.logp_difference is not None else np.full(n, 0.015)
        columns["sampling/sampling_logp_difference/mean"] = difference * np.exp(0.1 * rng.standard_normal(n))
    return columns


def _truths(d: Draft, rates: Floats) -> set[str]:
    """Return findings that hold of a run without a fault in it: it is solved, hard, or has stopped rising."""
    last = slice(-max(10, d.n // 4), None)
    wrong, right = (1 - rates[last]) ** d.group, rates[last] ** d.group
    found = set()
    if d.settings["num_iterations"] == 1:
        found.add("clip_idle")
    if wrong.mean() > 0.55:
        found.add("dead_groups_hard")
    if right.mean() > 0.5:
        found.add("dead_groups_easy")
    if (wrong + right).mean() > 0.3:
        found.add("group_size")
    # Within what a log of this length can tell from flat.
    if d.solve[-1] - d.solve[d.n // 2] < 0.05:
        found.add("plateau")
    return found


def _averaged(columns: dict[str, Floats], every: int) -> tuple[dict[str, Floats], NDArray[np.int64]]:
    n = len(next(iter(columns.values())))
    rows = n // every
    means = {name: values[: rows * every].reshape(rows, every).mean(axis=1) for name, values in columns.items()}
    return means, np.arange(1, rows + 1, dtype=np.int64) * every


Fault = Callable[[Draft], None]


def _improving(d: Draft, start: float = 0.3, end: float = 0.7) -> None:
    """Make the curve one that rises, for faults that are judged against a rise."""
    d.solve = curve(d.rng, "saturating", d.time, start, end)


def truncated_from_start(d: Draft) -> None:
    """A quick-start length cap: nearly everything is cut off and nothing is learnt."""
    d.cap = max(4, int(d.length[0] * d.rng.uniform(0.3, 0.5)))
    d.onset = 1
    d.expected = {"truncation"}
    d.allowed = {"dead_groups_hard", "update_without_signal", "plateau", "group_size", "learning_rate_low"}


def truncation_grows(d: Draft) -> None:
    """Completions grow into the cap."""
    way = d.from_onset()
    d.length = d.length[0] * (1 + way * d.rng.uniform(2.0, 3.0))
    d.cap = int(d.length[0] * 2)
    d.expected = {"truncation"}
    d.allowed = {"length_drift", "reward_collapse", "dead_groups_hard", "group_size", "plateau", "learning_rate_high"}


def too_hard(d: Draft) -> None:
    """Nearly no completion is right."""
    d.solve = np.full(d.n, d.rng.uniform(0.0, 0.004))
    d.spread, d.formatted, d.onset = 0.5, None, 1
    d.expected = {"dead_groups_hard"}
    d.allowed = {"plateau", "update_without_signal", "learning_rate_low", "group_size"}


def too_easy(d: Draft) -> None:
    """The base has mastered the task before training."""
    d.solve = np.full(d.n, d.rng.uniform(0.992, 1.0))
    d.spread, d.formatted, d.onset = 0.5, None, 1
    d.expected = {"dead_groups_easy"}
    d.allowed = {"plateau", "update_without_signal", "learning_rate_low", "group_size"}


def constant_reward(d: Draft) -> None:
    """The reward function gives one value in the middle, whatever it reads."""
    d.solve = np.ones(d.n)
    d.task_value, d.formatted, d.onset = 0.4, None, 1
    d.cap *= 10
    d.expected = {"reward_without_spread"}
    d.allowed = {"plateau", "update_without_signal", "learning_rate_low", "group_size", "dead_groups_easy"}


def reward_missing(d: Draft) -> None:
    """Every reward function returns None."""
    d.onset = 1
    d.expected = {"reward_missing"}

    def change(run: SimulatedRun) -> SimulatedRun:
        gone = {name for name in run.columns if name.startswith("reward")}
        columns = {name: np.full_like(v, np.nan) if name in gone else v for name, v in run.columns.items()}
        columns |= {"frac_reward_zero_std": np.zeros(len(run.steps)), "grad_norm": np.zeros(len(run.steps))}
        rewards = None if run.rewards is None else np.full_like(run.rewards, np.nan)
        return replace(run, columns=columns, rewards=rewards)

    d.after.append(change)


def format_dominates(d: Draft) -> None:
    """The parts beside the task outweigh it, and are what is learnt."""
    d.task_value, d.format_value, d.onset = 1.0, d.rng.uniform(1.5, 3.0), 1
    d.formatted = np.linspace(0.5, 0.9, d.n)
    d.expected = {"reward_dominance"}


def parts_oppose(d: Draft) -> None:
    """What one part rewards another forbids: their sum has little spread within a group."""
    _improving(d, 0.4, 0.45)
    d.formatted, d.format_value, d.parts_oppose = np.full(d.n, 0.5), 0.9, True
    d.spread, d.with_rollouts, d.onset = 0.5, True, 1
    d.expected = {"reward_opposition"}
    d.allowed = {"reward_dominance", "dead_groups_hard", "dead_groups_easy", "reward_without_spread", "plateau"}
    d.allowed |= {"group_size", "reward_hacking"}


def hacked_format(d: Draft) -> None:
    """Format is learnt at the cost of the task, under a rising total."""
    way = d.from_onset(0.2, 0.4)
    d.solve = d.rng.uniform(0.25, 0.4) * (1 - 0.9 * way)
    d.formatted = 0.3 + 0.65 * way
    d.format_value = 1.0
    d.length = d.length[0] * (1 - 0.5 * way)
    d.expected = {"reward_hacking"}
    d.allowed = {"reward_dominance", "length_drift", "dead_groups_hard", "group_size", "reward_opposition", "plateau"}


def hacked_training(d: Draft) -> None:
    """Training reward rises while held-out accuracy falls."""
    _improving(d)
    d.onset = d.n // 3
    d.expected = {"reward_hacking"}

    def change(run: SimulatedRun) -> SimulatedRun:
        marks = np.linspace(0, 1, 9)
        wave = 0.5 - 0.25 * marks + 0.01 * d.rng.standard_normal(9)
        found = {int(m * d.n): {"heldout/accuracy": float(v)} for m, v in zip(marks, wave, strict=True)}
        return replace(run, evaluations=found)

    d.after.append(change)


def wrong_answers_grow(d: Draft) -> None:
    """Wrong completions grow, right ones do not."""
    d.solve = np.full(d.n, d.rng.uniform(0.2, 0.5))
    way = d.from_onset()
    d.wrong_length = 1 + way * d.rng.uniform(1.5, 3.0)
    d.length = np.full(d.n, d.length[0])
    d.cap, d.formatted = int(d.length[0] * 20), None
    d.expected = {"length_drift"}


def length_shrinks(d: Draft) -> None:
    """Completions shrink to a stub while the reward stays."""
    d.solve = np.full(d.n, d.rng.uniform(0.2, 0.5))
    d.length = d.length[0] * (1 - 0.7 * d.from_onset())
    d.formatted = None
    d.expected = {"length_drift"}


def entropy_collapses(d: Draft) -> None:
    """The policy grows sure of what is not right."""
    way = d.from_onset(0.15, 0.4)
    d.solve = np.full(d.n, d.rng.uniform(0.2, 0.5))
    d.entropy = d.entropy[0] * np.exp(-way * d.rng.uniform(4.0, 12.0))
    d.formatted = None
    d.expected = {"entropy_collapse"}


def entropy_explodes(d: Draft) -> None:
    """The policy grows unsure, the divergence climbs, and quality drops."""
    way = d.from_onset(0.15, 0.4)
    d.solve = d.rng.uniform(0.4, 0.7) * (1 - 0.5 * way)
    d.entropy = d.entropy[0] * (1 + way * d.rng.uniform(3.0, 8.0))
    d.settings["beta"] = 0.001
    d.kl = 0.02 + 0.5 * way
    d.formatted = None
    d.expected = {"entropy_explosion"}
    d.allowed = {"kl_drift", "reward_collapse", "learning_rate_high", "dead_groups_hard", "group_size"}


def kl_drifts(d: Draft) -> None:
    """The policy goes on leaving its reference while the reward stands still."""
    way = d.from_onset(0.2, 0.4)
    d.solve = curve(d.rng, "saturating", np.minimum(1.0, d.time * 4), 0.3, 0.5)
    d.settings["beta"] = 0.001
    d.kl = 0.05 + way * d.rng.uniform(1.0, 4.0)
    d.formatted = None
    d.expected = {"kl_drift"}
    d.allowed = {"plateau"}


def kl_blows_up(d: Draft) -> None:
    """The divergence jumps by orders of magnitude; the reward follows down."""
    way = d.from_onset(0.3, 0.6)
    d.settings["beta"] = 0.04
    d.kl = np.where(way > 0, d.rng.uniform(20.0, 2000.0), 0.03)
    d.solve = np.where(way > 0, 0.02, d.rng.uniform(0.4, 0.6))
    d.formatted = None
    d.expected = {"kl_blow_up"}
    d.allowed = {"reward_collapse", "learning_rate_high", "kl_drift", "dead_groups_hard", "group_size", "plateau"}


def hidden_nan(d: Draft) -> None:
    """A NaN step logged as loss 0; everything after it is dead."""
    at = int(d.n * d.rng.uniform(0.3, 0.7))
    d.onset, d.logging = at + 1, 1
    d.expected = {"non_finite"}
    d.allowed = {"reward_collapse", "dead_groups_hard", "group_size", "plateau", "learning_rate_high"}

    def change(run: SimulatedRun) -> SimulatedRun:
        columns = {name: values.copy() for name, values in run.columns.items()}
        columns["grad_norm"][at:] = np.nan
        columns["entropy"][at:] = np.nan
        columns["loss"][at:] = 0.0
        rewards = None if run.rewards is None else run.rewards.copy()
        for name, values in columns.items():
            if name.startswith("reward"):
                values[at + 1 :] = 0.0
        columns["frac_reward_zero_std"][at + 1 :] = 1.0
        if rewards is not None:
            rewards[at + 1 :] = 0.0
        return replace(run, columns=columns, rewards=rewards)

    d.after.append(change)


def gradient_spikes(d: Draft) -> None:
    """Clusters of gradients far over their usual size, and a reward that suffers."""
    way = d.from_onset(0.3, 0.5)
    d.logging = 1
    d.gradient = d.gradient * np.where((way > 0) & (d.rng.random(d.n) < 0.15), d.rng.uniform(30, 100, d.n), 1.0)
    d.gradient_noise = min(d.gradient_noise, 0.4)
    d.solve = d.rng.uniform(0.5, 0.7) * (1 - 0.5 * way)
    d.spread, d.prompts, d.group = min(d.spread, 1.0), max(8, d.prompts), max(8, d.group)
    d.formatted = None
    d.expected = {"gradient_spikes"}
    d.allowed = {"reward_collapse", "learning_rate_high", "dead_groups_hard", "group_size"}


def update_without_signal(d: Draft) -> None:
    """Groups without spread, and still the weights move: through the divergence term."""
    d.solve, d.formatted, d.onset = np.zeros(d.n), None, 1
    d.settings["beta"] = 0.04
    d.kl = np.full(d.n, 0.02)
    d.expected = {"update_without_signal"}
    d.allowed = {"dead_groups_hard", "plateau", "learning_rate_low", "reward_without_spread"}


def bf16_lost(d: Draft) -> None:
    """Weights stored in bf16 at a learning rate that rounds away."""
    d.solve, d.lora, d.onset = np.full(d.n, 0.4), None, 1
    d.settings["learning_rate"] = 1e-7
    d.rate = np.full(d.n, 1e-7)
    d.entropy = np.full(d.n, d.entropy[0])
    d.expected = {"bf16_updates_lost"}
    d.allowed = {"learning_rate_low", "plateau"}

    def change(run: SimulatedRun) -> SimulatedRun:
        steps = np.arange(5, d.n + 1, 5, dtype=np.int64)
        names = tuple(f"model.layers.{i}.mlp.up_proj.weight" for i in range(6))
        share = d.rng.uniform(0.001, 0.01, (len(steps), 6))
        probes = {
            "update_changed_fraction": share,
            "update_norm": 1e-3 * share,
            "update_applied_fraction": 0.05 + share,
        }
        tensors = Tensors(names, ("linear",) * 6, ("full",) * 6, "bfloat16", steps, probes)
        return replace(run, tensors=tensors, dtype="bfloat16")

    d.after.append(change)


def lora_untrained(d: Draft) -> None:
    """The adapter's B stays exactly zero: gradients never reach it."""
    d.solve, d.onset = np.full(d.n, 0.4), 1
    d.lora = {"r": 16, "lora_alpha": 32, "target_modules": ["q_proj", "v_proj"]}
    d.rate = np.full(d.n, 1e-5)
    d.entropy = np.full(d.n, d.entropy[0])
    d.settings |= {"learning_rate": 1e-5, "gradient_checkpointing": True}
    d.expected = {"lora_untrained"}
    d.allowed = {"plateau", "learning_rate_low", "lora_targets"}
    d.after.append(lambda run: replace(run, tensors=_adapter(d, moved=False)))


def _adapter(d: Draft, moved: bool) -> Tensors:
    steps = np.arange(1, d.n + 1, dtype=np.int64)
    names, kinds, sources = [], [], []
    for layer in range(4):
        for place in ("self_attn.q_proj", "self_attn.v_proj", *(("mlp.up_proj", "mlp.down_proj") if moved else ())):
            base = f"model.layers.{layer}.{place}"
            names += [f"{base}.weight", f"{base}.lora_A", f"{base}.lora_B"]
            kinds += ["linear", "lora_factor", "lora_factor"]
            sources += ["lora", "factor", "factor"]
    way = np.sqrt(steps)[:, None] * 1e-3 * np.ones((1, len(names)))
    if not moved:
        way = np.zeros_like(way)
    probes = {"delta_norm": way, "update_norm": np.full_like(way, 1e-4 if moved else 0.0)}
    probes["grad_norm"] = np.where(np.array(sources) == "lora", np.nan, 1.0 if moved else 0.0) * np.ones_like(way)
    return Tensors(tuple(names), tuple(kinds), tuple(sources), "float32", steps, probes)


def query_and_key_only(d: Draft) -> None:
    """An adapter on the two kinds of modules that no study found enough."""
    d.lora, d.onset = {"r": 16, "lora_alpha": 32, "target_modules": ["q_proj", "k_proj"]}, 1
    d.settings["learning_rate"] = 1e-5
    d.rate = np.full(d.n, 1e-5)
    d.expected = {"lora_targets"}


def rank_cap_binds(d: Draft) -> None:
    """The adapter's rank is full, and cutting its tail costs reward."""
    d.lora, d.onset = {"r": 4, "lora_alpha": 32, "target_modules": "all-linear"}, None
    d.settings["learning_rate"] = 1e-5
    d.rate = np.full(d.n, 1e-5)
    d.expected = {"rank_cap"}

    def change(run: SimulatedRun) -> SimulatedRun:
        rows = _adapter(d, moved=True)
        keep = [i for i, source in enumerate(rows.sources) if source == "lora"]
        ranks = np.full((1, len(keep)), 3.9) - d.rng.uniform(0, 0.2, (1, len(keep)))
        spectra = Tensors(
            tuple(rows.names[i] for i in keep),
            ("linear",) * len(keep),
            ("lora",) * len(keep),
            "float32",
            np.array([d.n], dtype=np.int64),
            {"effective_rank": ranks},
        )
        cut = {2: (0.50, 0.48, 0.52), 4: (0.60, 0.58, 0.62)}
        return replace(run, tensors=rows, spectra=spectra, truncation=cut)

    d.after.append(change)


def drifts_like_sft(d: Draft) -> None:
    """A large model in bf16, fully trained, whose weights turn as under supervised fine-tuning."""
    d.lora, d.onset = None, None
    d.settings["learning_rate"] = 1e-6
    d.rate = np.full(d.n, 1e-6)
    d.expected = {"sft_like_drift"}
    d.after.append(lambda run: _with_geometry(run, 1e-3, math.radians(15)))


def _with_geometry(run: SimulatedRun, shift: float, angle: float) -> SimulatedRun:
    rng = np.random.default_rng(run.seed)
    names = tuple(f"model.layers.{i}.mlp.up_proj.weight" for i in range(8))
    noise = np.exp(0.2 * rng.standard_normal((1, 8)))
    probes = {"spectral_shift": shift * noise, "principal_angle": angle * noise}
    steps = run.steps[-1:]
    spectra = Tensors(names, ("linear",) * 8, ("full",) * 8, "bfloat16", steps, probes)
    return replace(run, spectra=spectra, dtype="bfloat16", parameters=1_700_000_000)


def rate_too_high(d: Draft) -> None:
    """The reward rises, then breaks, with gradients and entropy that jump."""
    way = d.from_onset(0.3, 0.5)
    d.solve = np.where(way > 0, d.rng.uniform(0.0, 0.03), curve(d.rng, "linear", d.time, 0.3, 0.8))
    d.gradient = d.gradient * np.where(way > 0, d.rng.uniform(5.0, 20.0), 1.0)
    d.entropy = d.entropy[0] * np.where(way > 0, d.rng.uniform(2.5, 5.0), 1.0)
    d.settings["learning_rate"] *= 50
    d.rate = d.rate * 50
    d.formatted = None
    d.expected = {"learning_rate_high"}
    d.allowed = {"reward_collapse", "entropy_explosion", "dead_groups_hard", "gradient_spikes", "group_size"}


def rate_too_low(d: Draft) -> None:
    """Nothing moves, although the reward has signal."""
    d.solve, d.formatted, d.onset = np.full(d.n, d.rng.uniform(0.3, 0.6)), None, 1
    d.spread = 0.5
    d.entropy = np.full(d.n, d.entropy[0])
    d.length = np.full(d.n, d.length[0])
    d.settings["learning_rate"] = 1e-8 if d.lora is None else 1e-7
    d.rate = np.full(d.n, d.settings["learning_rate"])
    if d.kl is not None:
        d.kl = np.full(d.n, 1e-6)
    d.expected = {"learning_rate_low"}
    d.allowed = {"plateau"}


def plateaus(d: Draft) -> None:
    """The reward has stopped rising long before the end."""
    d.solve = curve(d.rng, "saturating", np.minimum(1.0, d.time * 5), 0.15, d.rng.uniform(0.6, 0.8))
    d.n, d.formatted, d.spread = d.n, None, min(d.spread, 1.0)
    d.prompts, d.group = max(16, d.prompts), max(8, d.group)
    d.expected = {"plateau"}


def groups_too_small(d: Draft) -> None:
    """Prompts of middling difficulty, and groups so small that half of them agree."""
    d.solve, d.spread, d.group = np.full(d.n, d.rng.uniform(0.3, 0.7)), 0.8, 2
    d.formatted, d.onset = None, 1
    d.expected = {"group_size"}


def sampler_differs(d: Draft) -> None:
    """The sampler's probabilities are not the trainer's."""
    d.ratio = np.full(d.n, d.rng.uniform(0.45, 0.8))
    d.logp_difference = np.full(d.n, d.rng.uniform(0.2, 0.6))
    d.onset = 1
    d.expected = {"sampler_mismatch"}


def one_update_a_batch(d: Draft) -> None:
    """A clip fraction that is zero because nothing can be clipped."""
    d.settings |= {"num_iterations": 1, "epsilon_high": 0.28}
    d.expected, d.onset = {"clip_idle"}, 1


def interrupted(d: Draft) -> None:
    """The run was killed."""
    d.expected = {"incomplete_record"}
    d.after.append(lambda run: replace(run, status="interrupted"))


def collapses(d: Draft) -> None:
    """The reward falls to nothing and nothing else says why."""
    way = d.from_onset(0.4, 0.6)
    d.solve = np.where(way > 0, 0.02, d.rng.uniform(0.4, 0.7))
    d.formatted = None
    d.expected = {"reward_collapse"}
    d.allowed = {"dead_groups_hard", "group_size", "learning_rate_high", "plateau"}


def healthy(d: Draft) -> None:
    """Nothing is wrong."""


def healthy_mastered(d: Draft) -> None:
    """Mastered by training: entropy and spread vanish because all is right."""
    d.solve = curve(d.rng, "sigmoid", d.time, 0.1, 0.995)
    d.entropy = d.entropy[0] * (1 - 0.98 * (d.solve - 0.1) / 0.9)
    d.spread, d.formatted = 0.5, None
    d.allowed = {"dead_groups_easy", "plateau", "group_size", "update_without_signal"}


def healthy_loss_rises(d: Draft) -> None:
    """The loss starts at 0 and creeps up with the divergence: as it should."""
    _improving(d)
    d.settings["beta"], d.formatted = 0.04, None
    d.kl = 0.2 * d.time + 1e-5


def healthy_late_spikes(d: Draft) -> None:
    """Gradients spike late while the reward still rises."""
    d.solve = curve(d.rng, "linear", d.time, 0.2, 0.8)
    d.gradient = d.gradient * np.where((d.time > 0.7) & (d.rng.random(d.n) < 0.02), 12.0, 1.0)
    d.allowed = {"gradient_spikes"}


def healthy_rl_geometry(d: Draft) -> None:
    """A large model whose weights turn as under reinforcement learning."""
    d.lora = None
    d.settings["learning_rate"] = 1e-6
    d.rate = np.full(d.n, 1e-6)
    d.after.append(lambda run: _with_geometry(run, 1e-5, math.radians(0.3)))


def healthy_adapter(d: Draft) -> None:
    """An adapter that moves, with full rank and no loss when its tail is cut."""
    rank_cap_binds(d)
    d.expected = set()
    cut = {2: (0.60, 0.58, 0.62), 4: (0.605, 0.585, 0.625)}
    d.after.append(lambda run: replace(run, truncation=cut))


HEALTHY: tuple[Fault, ...] = (
    healthy,
    healthy,
    healthy,
    healthy,
    healthy_mastered,
    healthy_loss_rises,
    healthy_late_spikes,
    healthy_rl_geometry,
    healthy_adapter,
)
FAULTS: tuple[Fault, ...] = (
    truncated_from_start,
    truncation_grows,
    too_hard,
    too_easy,
    constant_reward,
    reward_missing,
    format_dominates,
    parts_oppose,
    hacked_format,
    hacked_training,
    wrong_answers_grow,
    length_shrinks,
    entropy_collapses,
    entropy_explodes,
    kl_drifts,
    kl_blows_up,
    hidden_nan,
    gradient_spikes,
    update_without_signal,
    bf16_lost,
    lora_untrained,
    query_and_key_only,
    rank_cap_binds,
    drifts_like_sft,
    rate_too_high,
    rate_too_low,
    plateaus,
    groups_too_small,
    sampler_differs,
    one_update_a_batch,
    interrupted,
    collapses,
)


def simulate(scenario: Fault, seed: int) -> SimulatedRun:
    """Return one run of a scenario; equal for equal seeds."""
    made = draft(seed)
    scenario(made)
    return sample(made, scenario.__name__)


def healthy_run(seed: int) -> SimulatedRun:
    """Return a run in which nothing is wrong, of one of the kinds of `HEALTHY`."""
    return simulate(HEALTHY[seed % len(HEALTHY)], seed)
