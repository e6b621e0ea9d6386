from __future__ import annotations

from types import SimpleNamespace

from grpodyn.training.display import Moment
from grpodyn.training.progress import ProgressDisplay


class Shown:
    def __init__(self) -> None:
        self.moments: list[Moment] = []

    def show(self, moment: Moment) -> None:
        self.moments.append(moment)


def test_a_logged_step_is_shown_once_with_its_own_figures() -> None:
    shown = Shown()
    progress = ProgressDisplay(shown, lambda: 0.01)
    state = SimpleNamespace(global_step=0, max_steps=4, is_world_process_zero=True)
    progress.on_train_begin(None, state, None)
    for step, logged in ((1, False), (2, True)):
        state.global_step = step
        progress.on_step_end(None, state, SimpleNamespace(should_log=logged))
        if logged:
            progress.on_log(
                None, state, None, logs={"loss": 0.0, "reward": 0.25, "learning_rate": 1e-5, "entropy": None}
            )
    progress.on_log(None, state, None, logs={"train_runtime": 3.0})
    assert [(m.step, m.total, dict(m.metrics)) for m in shown.moments] == [(1, 4, {}), (2, 4, {"reward": 0.25})]
    assert shown.moments[-1].recorder_fraction == 0.01
    assert shown.moments[-1].seconds_left >= 0


def test_a_resumed_run_estimates_from_its_own_steps(monkeypatch) -> None:
    now = 100.0
    monkeypatch.setattr("grpodyn.training.progress.time.monotonic", lambda: now)
    shown = Shown()
    progress = ProgressDisplay(shown, lambda: 0.0)
    state = SimpleNamespace(global_step=90, max_steps=100, is_world_process_zero=True)
    progress.on_train_begin(None, state, None)
    now, state.global_step = 104.0, 92  # 2 s a step, 8 steps to go
    progress.on_step_end(None, state, SimpleNamespace(should_log=False))
    assert shown.moments[-1].seconds_left == 16.0


def test_only_the_first_rank_shows() -> None:
    shown = Shown()
    progress = ProgressDisplay(shown, lambda: 0.0)
    state = SimpleNamespace(global_step=1, max_steps=4, is_world_process_zero=False)
    progress.on_train_begin(None, state, None)
    progress.on_step_end(None, state, SimpleNamespace(should_log=False))
    assert shown.moments == []
