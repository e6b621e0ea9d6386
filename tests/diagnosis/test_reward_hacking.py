"""A fall of held-out accuracy is measured from the evaluation that it is said to be measured from."""

from __future__ import annotations

import numpy as np
import pytest

from grpodyn.diagnosis.observations import Observations
from grpodyn.diagnosis.rule import rules
from grpodyn.diagnosis.series import Series


def rewarded_more(accuracy: list[float]) -> Observations:
    """A run whose reward rises beyond doubt, evaluated every ten steps."""
    steps = np.arange(1, 101)
    reward = 0.2 + 0.006 * steps + 0.01 * np.random.default_rng(0).standard_normal(100)
    marks = 10 * np.arange(1, len(accuracy) + 1)
    evaluations = {"heldout/accuracy": Series(marks, np.array(accuracy))}
    return Observations("x", steps=steps, columns={"reward": reward}, evaluations=evaluations)


@pytest.mark.parametrize(
    ("accuracy", "said"),
    [
        # From the best, .60, to the median of the last two.
        ([0.40, 0.60, 0.59, 0.58, 0.33, 0.31, 0.30, 0.30], "fell by 0.3 from 0.6 at step 20"),
        # It ends where it began, and has lost what it had won.
        ([0.50, 0.70, 0.70, 0.70, 0.70, 0.60, 0.50, 0.50], "fell by 0.2 from 0.7 at step 20"),
        # Steadily down from the first.
        ([0.60, 0.50, 0.40, 0.30], "fell by 0.25 from 0.6 at step 10"),
    ],
)
def test_the_fall_and_its_start_belong_together(accuracy: list[float], said: str) -> None:
    found = rules()["reward_hacking"].check(rewarded_more(accuracy))
    assert found is not None
    assert any(said in sentence for sentence in found.evidence), found.evidence


@pytest.mark.parametrize(
    "accuracy",
    [
        # Up and down by .1 throughout: the best lies .05 over the end, which is half of that noise.
        [0.50, 0.60] * 5,
        # The best is the last one.
        [0.50, 0.52, 0.51, 0.53, 0.60],
    ],
)
def test_noise_and_rises_are_no_fall(accuracy: list[float]) -> None:
    assert rules()["reward_hacking"].check(rewarded_more(accuracy)) is None


def test_the_best_of_many_noisy_evaluations_is_mostly_no_level() -> None:
    # 200 runs of 20 evaluations with a standard deviation of .02 about one level, as of 600 prompts.
    rng = np.random.default_rng(0)
    flat = 0.5 + 0.02 * rng.standard_normal((200, 20))
    alarms = sum(rules()["reward_hacking"].check(rewarded_more(list(run))) is not None for run in flat)
    # Measured from the first alone: 4 to 8 %; from the best with the same bound: 33 to 44 %.
    assert alarms < 20
