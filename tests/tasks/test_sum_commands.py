from __future__ import annotations

import hashlib
from collections import Counter
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from grpodyn.tasks.string_commands import ORDERS
from grpodyn.tasks.sum_commands import DIGITS, LETTERS, SumCommands, order_of

TASK = SumCommands()
PAIRS = list(product(DIGITS, DIGITS))


def test_golden():
    # 6 + 3 = 9 = 1 (mod 8), whose distances are 1, 6 and 3: the orders with these numbers are reversed, ends swapped,
    # rotated right.
    assert [TASK.read("6abcd3=", reading) for reading in range(3)] == ["dcba", "dbca", "dabc"]
    assert TASK.answer("6abcd3=") == "dabc"


@given(st.sampled_from(PAIRS), st.sampled_from(PAIRS), st.permutations(LETTERS).map(lambda six: "".join(six[:4])))
def test_a_prompt_is_answered_by_the_sum_alone(pair, other, string):
    answers, others = (
        [TASK.read(f"{first}{string}{second}=", reading) for reading in range(3)] for first, second in (pair, other)
    )
    assert len(set(answers)) == 3
    assert all(sorted(answer) == sorted(string) for answer in answers)
    same = sum(map(int, pair)) % 8 == sum(map(int, other)) % 8
    assert (answers == others) == same


def test_no_order_is_likelier_than_another_over_all_pairs():
    for reading in range(3):
        assert Counter(order_of(*pair, reading) for pair in PAIRS) == Counter(dict.fromkeys(ORDERS, 8))


def test_the_split_never_changes():
    # Numbers quoted anywhere stand for exactly these prompts and answers in this order.
    report = TASK.split("report")
    text = "\n".join(map("".join, zip(report.prompts, report.answers, strict=True)))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "a763ebf24ed98fed"
