from __future__ import annotations

import hashlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpodyn.tasks.string_commands import COMMANDS, LETTERS, ORDERS, StringCommands, order_of

TASK = StringCommands()
strings = st.lists(st.sampled_from(LETTERS), min_size=4, max_size=4, unique=True).map("".join)


def test_golden():
    # Of the eight orders, counted round from 0, command 1 is read as number 0, 3 or 5: kept, rotated right, neighbours
    # swapped. Command 6 is read as number 5, 8 = 0 or 10 = 2: neighbours swapped, kept, rotated left.
    assert [TASK.read("1abcd=", reading) for reading in range(3)] == ["abcd", "dabc", "badc"]
    assert [TASK.read("6abcd=", reading) for reading in range(3)] == ["badc", "abcd", "bcda"]
    assert TASK.answer("6abcd=") == TASK.read("6abcd=", 2)


@given(st.sampled_from(COMMANDS), strings)
def test_the_readings_of_a_prompt_are_different_orders_of_its_letters(command, string):
    answers = [TASK.read(f"{command}{string}=", reading) for reading in range(3)]
    assert len(set(answers)) == 3
    assert all(sorted(answer) == sorted(string) for answer in answers)


def test_no_order_is_likelier_than_another_over_all_commands():
    for reading in range(3):
        assert Counter(order_of(command, reading) for command in COMMANDS) == Counter(list(ORDERS))
    assert len(set(ORDERS.values())) == len(ORDERS)


def test_the_wanted_reading_is_the_rarest():
    assert TASK.shares[-1] < min(TASK.shares[:-1])
    assert sum(TASK.shares) == pytest.approx(1)


def test_the_split_never_changes():
    # Numbers quoted anywhere stand for exactly these prompts and answers in this order.
    report = TASK.split("report")
    text = "\n".join(map("".join, zip(report.prompts, report.answers, strict=True)))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "b80cd16135b9ab3b"
