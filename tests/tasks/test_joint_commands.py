from __future__ import annotations

import hashlib
from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpodyn.tasks.joint_commands import FIRST, SECOND, JointCommands, order_of
from grpodyn.tasks.string_commands import LETTERS, ORDERS

TASK = JointCommands()
PAIRS = list(product(FIRST, SECOND))


def test_golden():
    # 3…2 is the sixth pair (1…1, 1…2, 2…1, 2…2, 3…1, 3…2). The sixth entries of the three readings are 5, 0 and 2, and
    # the orders with these numbers, counted from 0: neighbours swapped, kept, rotated left.
    assert [TASK.read("3abcd2=", reading) for reading in range(3)] == ["badc", "abcd", "bcda"]
    assert TASK.answer("3abcd2=") == "bcda"


@given(st.sampled_from(PAIRS), st.lists(st.sampled_from(LETTERS), min_size=4, max_size=4, unique=True).map("".join))
def test_the_readings_of_a_prompt_are_different_orders_of_its_letters(pair, string):
    answers = [TASK.read(f"{pair[0]}{string}{pair[1]}=", reading) for reading in range(3)]
    assert len(set(answers)) == 3
    assert all(sorted(answer) == sorted(string) for answer in answers)


@pytest.mark.parametrize("reading", range(3))
def test_each_order_belongs_to_one_pair(reading):
    assert Counter(order_of(*pair, reading) for pair in PAIRS) == Counter(list(ORDERS))


@pytest.mark.parametrize("likelier", [0, 1])
def test_no_exchange_of_digits_makes_a_likelier_reading_the_wanted_one(likelier):
    wanted = [order_of(*pair, 2) for pair in PAIRS]
    right = [
        sum(
            order_of(firsts[FIRST.index(first)], seconds[SECOND.index(second)], likelier) == order
            for (first, second), order in zip(PAIRS, wanted, strict=True)
        )
        for firsts in product(FIRST, repeat=len(FIRST))
        for seconds in product(SECOND, repeat=len(SECOND))
    ]
    assert len(right) == 4**4 * 2**2
    assert max(right) <= 3


def test_the_split_never_changes():
    # Numbers quoted anywhere stand for exactly these prompts and answers in this order.
    report = TASK.split("report")
    text = "\n".join(map("".join, zip(report.prompts, report.answers, strict=True)))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "9041ad4f3b5530c0"
