from __future__ import annotations

import io
import math

import pytest
from rich.console import Console

from grpodyn.training.display import LineDisplay, LiveDisplay, Moment, display_for, facts


def moment(step: int, total: int = 100) -> Moment:
    metrics = {"reward": 0.5, "entropy": 1.25, "completions/mean_length": 4.0, "loss": 0.1}
    return Moment(step, total, metrics, recorder_fraction=0.0164, seconds_left=125.0)


def test_all_figures_stand_in_one_line() -> None:
    assert facts(moment(3)) == "reward 0.500 · entropy 1.250 · length 4.000 · recorder 1.6 % · 2:05 left"


def test_what_is_unknown_is_left_out_not_shown_as_nan() -> None:
    assert facts(Moment(0, 10, {"reward": math.nan}, math.nan, math.nan)) == ""


@pytest.mark.parametrize(("seconds", "text"), [(5, "0:05"), (65, "1:05"), (3600, "1:00:00"), (90000, "1 day, 1:00:00")])
def test_time_left_is_readable(seconds: float, text: str) -> None:
    assert facts(Moment(1, 2, {}, math.nan, seconds)) == f"{text} left"


def test_plain_lines_come_at_the_first_and_last_step_and_now_and_then_between() -> None:
    out = io.StringIO()
    now = 0.0
    display = LineDisplay(Console(file=out, width=20), clock=lambda: now)
    for step in range(1, 31):
        now = float(step)  # a step a second
        display.show(moment(step, total=30))
    steps = [line.split(" · ")[0] for line in out.getvalue().splitlines()]
    assert steps == ["step 1/30", "step 11/30", "step 21/30", "step 30/30"]


def test_text_from_a_run_is_not_read_as_markup() -> None:
    out = io.StringIO()
    LineDisplay(Console(file=out)).say("[red]x[/red] [/nonsense]")
    assert out.getvalue() == "[red]x[/red] [/nonsense]\n"


def test_a_terminal_gets_the_live_bar_and_a_file_plain_lines() -> None:
    assert isinstance(display_for(Console(file=io.StringIO(), force_terminal=True)), LiveDisplay)
    assert isinstance(display_for(Console(file=io.StringIO())), LineDisplay)


def test_the_live_bar_shows_the_step_and_the_figures() -> None:
    out = io.StringIO()
    display = LiveDisplay(Console(file=out, force_terminal=True, width=100))
    display.start()
    display.show(moment(3))
    display.say("held-out accuracy 0.5")
    display.stop()
    display.stop()
    assert "3/100" in out.getvalue()
    assert "reward 0.500" in out.getvalue()
    assert "held-out accuracy 0.5" in out.getvalue()
