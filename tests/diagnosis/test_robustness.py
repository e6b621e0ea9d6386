"""Whatever a log holds, every rule answers: no exception, no warning of numpy."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from grpodyn.diagnosis import diagnose
from grpodyn.diagnosis.groups import groups_of
from grpodyn.diagnosis.observations import Observations

KEYS = (
    "reward", "reward_std", "frac_reward_zero_std", "entropy", "kl", "grad_norm", "loss", "learning_rate",
    "completions/clipped_ratio", "completions/mean_length", "completions/max_length", "rewards/accuracy/mean",
    "rewards/accuracy/std", "rewards/format/mean", "rewards/format/std", "clip_ratio/region_mean",
    "sampling/importance_sampling_ratio/mean", "completions/mean_terminated_length",
)  # fmt: skip
LEVELS = (0.0, 1.0, -1.0, 1e-12, 1e9, np.nan, np.inf, -np.inf)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 130))
def test_every_rule_answers(seed: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    columns = {}
    for key in rng.choice(KEYS, size=rng.integers(0, len(KEYS) + 1), replace=False):
        kind = rng.integers(0, 4)
        values = (
            np.full(rows, rng.choice(LEVELS)) if kind == 0 else rng.standard_normal(rows) * rng.choice([1, 1e-6, 1e6])
        )
        if kind == 2:
            values = np.abs(values)
        if kind == 3:
            values = np.where(rng.random(rows) < 0.5, rng.choice(LEVELS, size=rows), values)
        columns[str(key)] = values
    groups = None
    if rows and rng.random() < 0.5:
        rewards = rng.choice([0.0, 1.0, np.nan, -2.0], size=(rows, 2, 3, 2), p=[0.5, 0.4, 0.05, 0.05])
        lengths = rng.choice([1.0, 50.0, np.nan], size=(rows, 2, 3))
        total = np.nan_to_num(rewards).sum(axis=-1)
        groups = groups_of(np.arange(rows), total, rewards, lengths, ("accuracy", "format"))
    seen = Observations(
        "fuzz",
        np.arange(1, rows + 1),
        columns,
        {} if rng.random() < 0.5 else {"learning_rate": 1e-6, "beta": 0.04, "num_generations": 4, "max_steps": 10},
        lora=None if rng.random() < 0.5 else {"r": 8, "lora_alpha": 16, "target_modules": ["q_proj"]},
        dtype=str(rng.choice(["bfloat16", "float32"])),
        groups=groups,
    )
    result = diagnose(seen)
    assert set(result.checked) | {item.id for item in result.unchecked} >= {f.id for f in result.findings}
