"""What holds for every reward of the package: it is a pure function, and each completion is judged by itself."""

from __future__ import annotations

import copy
import inspect
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grpodyn.errors import ConfigError
from grpodyn.rewards import KNOWN, RewardContext, reward, reward_names

pytest.importorskip("math_verify")
pytest.importorskip("reasoning_gym")

ENTRY = json.dumps({"generator": "chain_sum", "settings": {"seed": 0, "size": 3}, "index": 0})
COLUMNS = {
    "answer": {"multiple_choice": "B", "exact_match": "12", "numeric_match": "12", "math_match": "x^2"},
    "choices": ["a stone", "a magnet", "a leaf"],
    "entry": ENTRY,
}
OPTIONS: dict[str, dict[str, Any]] = {"length": {"longest": 8}, "pattern": {"expression": r".*\d.*"}}
CONTEXT = RewardContext(end_tokens=(1,), max_length=16)
TEXTS = [
    "", " ", "12", "B", "x^2", "-12", "1/2", "1.2e1", "٢", "１２", "The answer is 12.", "The answer is B. Answer: C",
    "-14282", "<think>12</think>13", "<think>12", "<reasoning>so</reasoning><answer>12</answer>",
    r"\boxed{12} \boxed{13}", "四", "😀", "a\x00b",
]  # fmt: skip
# Those of programs start a sandbox a text; they have tests of their own.
CHEAP = [name for name in reward_names() if not name.startswith("code_")]


def judge(name: str, texts: list[str]) -> list[float]:
    count = len(texts)
    known = KNOWN[name]
    wanted = [*known.columns, *known.one_of[:1], *(["choices"] if name == "multiple_choice" else [])]
    columns = {}
    for column in wanted:
        value = COLUMNS[column]
        columns[column] = [value[name] if isinstance(value, dict) else value] * count
    ids = [[5 + ord(c) % 7 for c in text] + [1] * (len(text) % 2) for text in texts]
    function = reward(name, OPTIONS.get(name), CONTEXT)
    return function(prompts=["?"] * count, completions=texts, completion_ids=ids, trainer_state=None, **columns)


@pytest.mark.parametrize("name", CHEAP)
def test_stays_in_its_range_and_is_the_same_again_in_any_order(name: str) -> None:
    texts = copy.copy(TEXTS)
    given = judge(name, texts)
    assert texts == TEXTS
    assert len(given) == len(TEXTS)
    assert all(isinstance(value, float) and KNOWN[name].low <= value <= KNOWN[name].high for value in given)
    assert judge(name, TEXTS[::-1]) == given[::-1]
    if KNOWN[name].high > 0:
        assert given[0] == given[1] == 0.0 or name == "stop" or name == "length"
        assert max(given) > 0.0, "nothing here earns it"
    assert judge(name, []) == []


@pytest.mark.parametrize("name", [n for n in CHEAP if n not in ("math_match", "reasoning_gym")])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.one_of(st.text(max_size=40), st.sampled_from(TEXTS)), max_size=4))
def test_any_text_is_judged_by_itself(name: str, texts: list[str]) -> None:
    assert judge(name, texts) == [judge(name, [text])[0] for text in texts]


@pytest.mark.parametrize("name", reward_names())
def test_says_what_it_is(name: str) -> None:
    assert KNOWN[name].kind in ("task", "shape")
    assert KNOWN[name].low < KNOWN[name].high
    function = KNOWN[name].function
    assert inspect.getdoc(function)
    assert inspect.getmodule(function).__name__.startswith("grpodyn.rewards.")


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("numeric_match", {"tolerence": 1.0}, ["no option 'tolerence'", "did you mean 'tolerance'?"]),
        ("code_syntax", {"x": 1}, ["no option 'x'", "known: block"]),
        ("numeric_match", {"tolerance": -1.0}, ["tolerance -1.0", "greater than or equal to 0"]),
        ("numeric_match", {"several": "all"}, ["several 'all'", "'agree', 'first' or 'last'"]),
        ("numeric_match", {"marks": ["box"]}, ["'boxed', 'answer_tag', 'hashes' or 'final_answer'"]),
        ("xml_format", {"tags": []}, ["tags []", "at least 1 item"]),
        ("length", {"longest": "8"}, ["longest '8'", "valid integer"]),
        ("repetition", {"ngram": 0}, ["ngram 0"]),
    ],
)
def test_a_wrong_option_is_refused(name: str, options: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        reward(name, options)
    for word in (name, *words):
        assert word in str(caught.value)


def test_an_option_left_out_comes_from_the_run_and_a_label_names_it() -> None:
    function = reward("soft_overlong", {"cache": 8}, CONTEXT, label="overlong")
    assert function.__name__ == "overlong"
    assert function(prompts=[""], completions=[""], completion_ids=[[0] * 12]) == [-0.5]
    assert reward("exact_match") is KNOWN["exact_match"].function


def test_an_option_that_nothing_fills_is_asked_for() -> None:
    with pytest.raises(ConfigError, match="length needs the option longest"):
        reward("length", {}, CONTEXT)
