from __future__ import annotations

import signal
from types import SimpleNamespace

import pytest

from grpodyn.training.stopping import StopOnSignal


def step_ends(stop: StopOnSignal, strategy: str = "steps") -> tuple[bool, bool]:
    control = SimpleNamespace(should_save=False, should_training_stop=False)
    stop.on_step_end(SimpleNamespace(save_strategy=strategy), None, control)
    return control.should_save, control.should_training_stop


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_saves_and_stops_after_the_step_and_the_second_at_once(number, capfd) -> None:
    with StopOnSignal() as stop:
        assert step_ends(stop) == (False, False)
        signal.raise_signal(number)
        assert step_ends(stop) == (True, True)
        assert step_ends(stop, strategy="no") == (False, True)
        assert "finishing this step" in capfd.readouterr().err
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)


def test_outside_of_a_run_the_signals_mean_what_they_meant() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with StopOnSignal():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
