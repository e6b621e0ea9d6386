from __future__ import annotations

import hashlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpodyn.tasks.letter_shifts import DISTANCES, LetterShifts
from grpodyn.tasks.string_commands import COMMANDS, LETTERS

TASK = LetterShifts()
strings = st.lists(st.sampled_from(LETTERS), min_size=4, max_size=4, unique=True).map("".join)


def test_golden():
    # Command 1 is read as 0, 3 or 5 on: a b c d as it is, d e f g, f g h and round to a.
    assert [TASK.read("1abcd=", reading) for reading in range(3)] == ["abcd", "defg", "fgha"]
    assert TASK.answer("1abcd=") == "fgha"
    assert TASK.answer("8hgfe=") == "dcba", "four on: h → d, g → c, f → b, e → a"


@given(st.sampled_from(COMMANDS), strings)
def test_the_readings_of_a_prompt_differ_in_every_letter(command, string):
    answers = [TASK.read(f"{command}{string}=", reading) for reading in range(3)]
    assert all(len(set(letters)) == 3 for letters in zip(*answers, strict=True))
    assert all(len(set(answer)) == 4 for answer in answers)


def test_no_distance_is_likelier_than_another_over_all_commands():
    for distances in DISTANCES:
        assert Counter(distances) == Counter(range(len(LETTERS)))


@pytest.mark.parametrize("likelier", [0, 1])
def test_no_constant_makes_a_likelier_reading_the_wanted_one(likelier):
    on = Counter((wanted - had) % 8 for had, wanted in zip(DISTANCES[likelier], DISTANCES[2], strict=True))
    assert max(on.values()) <= 3


def test_the_split_never_changes():
    # Numbers quoted anywhere stand for exactly these prompts and answers in this order.
    report = TASK.split("report")
    text = "\n".join(map("".join, zip(report.prompts, report.answers, strict=True)))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "ce2d9ab63a50c3ff"
