from __future__ import annotations

import math
import threading
import time

from grpodyn.recording.cost import RecorderCost, thread_seconds


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_the_time_inside_is_counted_once_and_the_time_outside_not():
    cost = RecorderCost()
    burn(0.05)
    with cost.foreground():
        burn(0.05)
        with cost.foreground():
            burn(0.02)
    assert 0.07 <= cost.seconds <= 0.5


def test_background_threads_count_by_their_own_clocks():
    cost = RecorderCost(background=lambda: 10.0)
    with cost.foreground():
        burn(0.02)
    assert 0.02 <= cost.foreground_seconds <= 0.5
    assert cost.seconds == cost.foreground_seconds + 10.0


def test_rows_hold_what_was_added_since_the_last():
    background = [1.0]
    cost = RecorderCost(background=lambda: background[0])
    cost.step_begins()
    cost.step_begins()
    cost.step_ends()
    first = cost.since_last_row()
    assert first[0] == 1.0
    assert first[1] == cost.step_seconds > 0
    background[0] = 1.5
    assert cost.since_last_row() == (0.5, 0.0)
    assert cost.steps == 2
    assert cost.fraction == 1.5 / cost.step_seconds


def test_no_step_no_fraction():
    assert math.isnan(RecorderCost().fraction)


def test_a_threads_clock():
    done = threading.Event()
    thread = threading.Thread(target=lambda: (burn(0.05), done.wait()))
    assert thread_seconds(thread) == 0.0
    thread.start()
    time.sleep(0.3)
    assert thread_seconds(thread) > 0.0
    done.set()
    thread.join()
    assert thread_seconds(thread) == 0.0
