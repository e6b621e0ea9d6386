from __future__ import annotations

import pytest

from grpodyn.errors import ConfigError, UnknownNameError
from grpodyn.rewards import reward, reward_names
from grpodyn.rewards.completion import text_of


def test_exact_match_wants_every_character():
    completions = ["68.0", "68", "068.0", "68.0 ", " 68.0", "68.0.", "", "68.0"]
    given = reward("exact_match")(prompts=["23+45="] * 8, completions=completions, answer=["68.0"] * 7 + ["67.0"])
    assert given == [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]


def test_exact_match_takes_conversations_and_what_else_a_trainer_passes():
    completions = [[{"role": "assistant", "content": "4"}], [{"role": "assistant", "content": "5"}]]
    prompts = [[{"role": "user", "content": "2+2="}]] * 2
    given = reward("exact_match")(
        prompts=prompts, completions=completions, answer=["4", "4"], completion_ids=[[1], [2]], trainer_state=None
    )
    assert given == [1.0, 0.0]


def test_exact_match_refuses_columns_of_unequal_length():
    with pytest.raises(ValueError, match="zip"):
        reward("exact_match")(prompts=["a"], completions=["a", "b"], answer=["a"])


@pytest.mark.parametrize(
    ("completion", "text"),
    [
        ("plain", "plain"),
        ([{"role": "assistant", "content": "a"}, {"role": "tool", "content": "b"}], "a"),
        ([{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}], "b"),
        ([{"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}], "ab"),
        ([{"role": "assistant", "content": None, "tool_calls": []}], ""),
        ([], ""),
    ],
)
def test_text_of_a_completion(completion, text):
    assert text_of(completion) == text


@pytest.mark.parametrize("said", ["A, B, C or D", "A/B", "a, b", "A) B)", "(A) and (C)", "The answer is A, B."])
def test_several_letters_are_no_choice(said):
    assert reward("multiple_choice")(
        [""], [said], answer=["A"], choices=[["a stone", "a leaf", "a tree", "a cat"]]
    ) == [0.0]


@pytest.mark.parametrize(
    "said",
    [r"\boxed{\text{C}}", r"$\boxed{\text{(C)}}$", r"The answer is \(C\).", "The answer is C because A is wrong."],
)
def test_a_letter_may_be_written_in_latex_and_have_a_reason(said):
    assert reward("multiple_choice")([""], [said], answer=["C"], choices=[["a stone", "a leaf", "a tree"]]) == [1.0]


def test_a_letter_with_its_text_is_a_choice():
    said = ["A. B", "A, because B is too small.", "A) stone", "A: a cat or a dog"]
    choices = [["B", "C"], ["big", "small"], ["stone", "leaf"], ["a cat or a dog", "b"]]
    assert reward("multiple_choice")([""] * 4, said, answer=["A"] * 4, choices=choices) == [1.0] * 4


def test_names():
    assert "exact_match" in reward_names()
    with pytest.raises(UnknownNameError, match="did you mean 'exact_match'"):
        reward("exact_mach")


def test_a_users_function_is_imported_from_the_folder_one_starts_in(tmp_path, monkeypatch):
    (tmp_path / "brevity_reward.py").write_text(
        "def brevity(completions, **_):\n    return [-float(len(c)) for c in completions]\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [])
    assert reward("brevity_reward:brevity")(completions=["abc", ""]) == [-3.0, 0.0]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("no_such_module_at_all:f", "cannot be imported: No module named"),
        (":f", "cannot be imported"),
        ("math:no_such_function", "holds nothing under 'no_such_function'"),
        ("math:pi", "holds a float under 'pi'"),
    ],
)
def test_an_import_that_fails_says_why(path, reason):
    with pytest.raises(ConfigError, match=reason):
        reward(path)
