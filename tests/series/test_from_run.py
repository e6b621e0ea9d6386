"""Series out of recorded runs: rollouts first, restarts and breaks found, every axis."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from grpodyn.errors import MissingDataError, UnknownNameError
from grpodyn.series import planned_steps, reward_series
from grpodyn.trace.reader import Run

NAN = float("nan")
WriteRun = Callable[..., Run]
ARGUMENTS = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2, "num_generations": 4, "max_steps": 50}


def test_counts_come_from_rollouts_where_rewards_are_0_or_1(write_run: WriteRun) -> None:
    run = write_run(
        metrics={2: {"reward": 0.9}},
        rollouts={1: [[1, 0], [0, 0]], 2: [[1, 1], [1, NAN]]},
    )
    series = reward_series(run)
    assert series.value.tolist() == [0.25, 1.0]
    assert series.trials is not None
    assert series.trials.tolist() == [4, 3]
    assert series.bounds == (0.0, 1.0)


def test_rewards_between_0_and_1_have_no_counts(write_run: WriteRun) -> None:
    series = reward_series(write_run(rollouts={1: [[0.5, 0], [0, 0]]}))
    assert series.trials is None
    assert series.bounds is None


def test_without_rollouts_the_logged_reward_is_used(write_run: WriteRun) -> None:
    metrics = {step: {"reward": step / 100, "learning_rate": 1e-6} for step in range(10, 60, 10)}
    series = reward_series(write_run(metrics=metrics, trainer={"arguments": ARGUMENTS}))
    assert series.step.tolist() == [10, 20, 30, 40, 50]
    assert series.max_steps == 50
    assert series.learning_rate_share == 1.0


def test_a_metric_of_the_evaluations(write_run: WriteRun) -> None:
    run = write_run(
        metrics={1: {"reward": 0.1}}, evaluations={0: {"heldout/accuracy": 0.1}, 10: {"heldout/accuracy": 0.4}}
    )
    series = reward_series(run, "heldout/accuracy")
    assert series.value.tolist() == [0.1, 0.4]
    assert series.bounds == (0.0, 1.0)


def test_a49_an_unknown_metric_lists_the_keys(write_run: WriteRun) -> None:
    run = write_run(metrics={1: {"reward": 0.1, "kl": 0.0}})
    with pytest.raises(MissingDataError, match="reward, kl"):
        reward_series(run, "eval/acc")


def test_an_unknown_axis_is_refused(write_run: WriteRun) -> None:
    with pytest.raises(UnknownNameError, match="completions"):
        reward_series(write_run(metrics={1: {"reward": 0.1}}), axis="epochs")  # type: ignore[arg-type]


def test_a04_a_nan_step_behind_a_finite_loss_ends_the_series(write_run: WriteRun) -> None:
    # The trainer logs loss 0.0 for a NaN loss; grad_norm stays nan.
    sound = {step: {"loss": 0.1, "grad_norm": 1.0, "reward": 0.5} for step in range(1, 8)}
    broken = {step: {"loss": 0.0, "grad_norm": NAN, "reward": 0.0} for step in range(8, 12)}
    series = reward_series(write_run(metrics=sound | broken))
    assert series.step[-1] == 7
    assert series.broken is not None
    assert series.broken.step == 8


def test_a_step_that_a_scaler_skipped_is_no_break(write_run: WriteRun) -> None:
    metrics = {s: {"loss": 0.1, "grad_norm": NAN if s == 4 else 1.0, "reward": 0.5} for s in range(1, 9)}
    series = reward_series(write_run(metrics=metrics))
    assert series.broken is None
    assert len(series) == 8


def test_a05_kl_that_is_never_computed_is_no_break(write_run: WriteRun) -> None:
    metrics = {s: {"loss": -0.1, "grad_norm": 1.0, "reward": 0.5, "kl": NAN} for s in range(1, 9)}
    assert reward_series(write_run(metrics=metrics)).broken is None


def test_a06_rows_that_log_no_reward_are_no_break(write_run: WriteRun) -> None:
    metrics = {s: {"loss": 0.1, "grad_norm": 1.0} | ({"reward": 0.5} if s % 4 == 1 else {}) for s in range(1, 10)}
    series = reward_series(write_run(metrics=metrics))
    assert series.step.tolist() == [1, 5, 9]
    assert series.broken is None


def test_a_tensor_that_the_recorder_saw_go_bad_ends_the_series(write_run: WriteRun) -> None:
    metrics = {step: {"reward": 0.5} for step in range(1, 9)}
    run = write_run(metrics=metrics, events=((5, "non-finite update", "of 26 tensors"),))
    assert reward_series(run).step[-1] == 4


def test_a18_a_resumed_run_that_jumps_keeps_its_parts_apart(write_run: WriteRun) -> None:
    rng = np.random.default_rng(3)
    first = {s: {"reward": 0.3 + 0.01 * rng.standard_normal()} for s in range(1, 41)}
    later = {s: {"reward": 0.7 + 0.01 * rng.standard_normal()} for s in range(31, 61)}
    series = reward_series(write_run(metrics=first, resumed=(30, later)))
    assert series.step.tolist() == list(range(1, 61))
    assert series.last_part().step[0] == 31


def test_axes_of_rollouts(write_run: WriteRun) -> None:
    run = write_run(rollouts={step: [[1, 0, 1, 0], [0, 0, 0, 0]] for step in (1, 2, 3)})
    assert reward_series(run, axis="prompts").position.tolist() == [2, 4, 6]
    assert reward_series(run, axis="completions").position.tolist() == [8, 16, 24]
    assert reward_series(run, axis="tokens").position.tolist() == [40, 80, 120]


def test_a22_axes_from_the_trainers_arguments(write_run: WriteRun) -> None:
    run = write_run(
        metrics={s: {"reward": 0.5, "num_tokens": 100.0 * s, "step_seconds": 2.0} for s in (1, 2, 3)},
        trainer={"arguments": ARGUMENTS},
    )
    assert reward_series(run, axis="completions").position.tolist() == [16, 32, 48]
    assert reward_series(run, axis="prompts").position.tolist() == [4, 8, 12]
    assert reward_series(run, axis="tokens").position.tolist() == [100, 200, 300]
    assert reward_series(run, axis="seconds").position.tolist() == [2, 4, 6]


def test_an_axis_that_nothing_tells_is_refused(write_run: WriteRun) -> None:
    with pytest.raises(MissingDataError, match="num_tokens"):
        reward_series(write_run(metrics={1: {"reward": 0.5}}), axis="tokens")


def test_planned_steps_from_epochs(write_run: WriteRun) -> None:
    run = write_run(
        metrics={s: {"reward": 0.5, "epoch": s / 40} for s in (10, 20)},
        trainer={"arguments": {"max_steps": -1, "num_train_epochs": 3}},
    )
    assert planned_steps(run) == 120
    assert reward_series(run).max_steps == 120
