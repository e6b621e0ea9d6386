from __future__ import annotations

import hashlib
from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpodyn.tasks.pair_commands import FIRST, ORDER_NAMES, SECOND, PairCommands, order_of
from grpodyn.tasks.string_commands import LETTERS

TASK = PairCommands()
PAIRS = list(product(FIRST, SECOND))


def test_golden():
    # Digit 3 is the element x, second digit 2 is x too. Readings 1, x and x+1: x + 1·x = 0; x + x·x = x + (x+1) = 1;
    # x + (x+1)·x = x + 1 = x+1, as x² = x + 1. Orders 0, 1 and 3: kept, neighbours swapped, reversed.
    assert [TASK.read("3abcd2=", reading) for reading in range(3)] == ["abcd", "badc", "dcba"]
    assert TASK.answer("3abcd2=") == "dcba"


@given(st.sampled_from(PAIRS), st.lists(st.sampled_from(LETTERS), min_size=4, max_size=4, unique=True).map("".join))
def test_the_readings_begin_with_different_letters_of_the_string(pair, string):
    answers = [TASK.read(f"{pair[0]}{string}{pair[1]}=", reading) for reading in range(3)]
    assert len({answer[0] for answer in answers}) == 3
    assert all(sorted(answer) == sorted(string) for answer in answers)


@pytest.mark.parametrize("reading", range(3))
def test_neither_digit_alone_says_anything_about_the_order(reading):
    for b in SECOND:
        assert Counter(order_of(a, b, reading) for a in FIRST) == Counter(ORDER_NAMES)
    # A first digit goes with three of the four orders, once each, and with the same three under every reading.
    for a in FIRST:
        orders = [order_of(a, b, reading) for b in SECOND]
        assert len(set(orders)) == 3
        assert set(orders) == {order_of(a, b, 0) for b in SECOND}


@pytest.mark.parametrize(("one", "other"), [(0, 1), (0, 2), (1, 2)])
def test_the_order_of_one_reading_says_nothing_about_anothers(one, other):
    seen = Counter((order_of(a, b, one), order_of(a, b, other)) for a, b in PAIRS)
    # All ordered pairs of different orders, each once: orthogonal Latin squares without the row where they agree.
    assert seen == Counter((p, q) for p, q in product(ORDER_NAMES, repeat=2) if p != q)


def test_the_split_never_changes():
    # Numbers quoted anywhere stand for exactly these prompts and answers in this order.
    report = TASK.split("report")
    text = "\n".join(map("".join, zip(report.prompts, report.answers, strict=True)))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "684b9c1390744785"
