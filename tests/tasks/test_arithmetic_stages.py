from __future__ import annotations

import hashlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpodyn.embedded.bases import BASES
from grpodyn.tasks import SPLITS, task
from grpodyn.tasks.arithmetic_stages import STAGE_NAMES, ArithmeticCurriculum, all_solved, solved

PROMPTS = sorted(all_solved())


def value(prompt: str) -> Fraction:
    """Return what a prompt asks for, by Python's own arithmetic."""
    text = prompt.removesuffix("=")
    if "%" in text:
        percent, of = text.split("%")
        return Fraction(int(percent) * int(of), 100)
    if "*" in text:
        a, b = text.split("*")
        return Fraction(int(a) * int(b))
    signed = text.replace("+", " +").replace("-", " -").split()
    return Fraction(sum(int(part) for part in signed))


@given(st.sampled_from(PROMPTS))
def test_answers_are_right_and_slips_are_not(prompt):
    found = all_solved()[prompt]
    assert Fraction(found.answer) == value(prompt)
    assert Fraction(found.slip) != value(prompt)
    # One spelling each: no zero after the last decimal, and none before the first digit.
    assert str(float(found.answer)).removesuffix(".0") == found.answer


def test_golden():
    # 30 % of 47 is 14.1; with the point one place too far right, 141. 3 + 4 − 5 = 2; with the first sign twice, 12.
    assert (solved("percentage")["30%47="].answer, solved("percentage")["30%47="].slip) == ("14.1", "141")
    assert (solved("single_digit")["3+4-5="].answer, solved("single_digit")["3+4-5="].slip) == ("2", "12")


def test_no_prompt_belongs_to_two_stages_and_all_have_one_length():
    assert sum(len(solved(stage)) for stage in STAGE_NAMES) == len(PROMPTS)
    assert {len(prompt) for prompt in PROMPTS} == {6}


@pytest.mark.parametrize("split", SPLITS)
def test_together_there_are_as_many_of_each(split):
    examples = ArithmeticCurriculum().split(split)
    of = [next(stage for stage in STAGE_NAMES if prompt in solved(stage)) for prompt in examples.prompts]
    assert of[:5] == list(STAGE_NAMES)
    assert len({of.count(stage) for stage in STAGE_NAMES}) == 1


def test_the_bases_are_taught_each_stage_about_as_often():
    base = BASES["embedded-curriculum"]
    counts = dict.fromkeys(STAGE_NAMES, 0)
    stage_of = {prompt: stage for stage in STAGE_NAMES for prompt in solved(stage)}
    for prompt in base.prompts():
        counts[stage_of[prompt]] += 1
    assert max(counts.values()) / min(counts.values()) < 3
    assert base.ways["right"]("30%47=") == "14.1"


def test_the_split_never_changes():
    # Numbers quoted anywhere stand for exactly these prompts and answers in this order.
    report = task("arithmetic_curriculum").split("report")
    text = "\n".join(map("".join, zip(report.prompts, report.answers, strict=True)))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "a4c7f4029f16e5b7"
