from __future__ import annotations

from typing import Any

import pytest

from grpodyn.config.run import RewardConfig
from grpodyn.embedded.tokenizer import build_tokenizer
from grpodyn.rewards import reward
from grpodyn.rewards.lint import lint


def cautions(
    *given: dict[str, Any] | str, tokenizer: Any = None, max_length: int = 100, conversation: str = ""
) -> dict[str, str]:
    rewards = [RewardConfig(name=one) if isinstance(one, str) else RewardConfig(**one) for one in given]
    functions = [reward(one.name, one.options, label=one.label) for one in rewards]
    return {caution.key: caution.text for caution in lint(rewards, functions, max_length, tokenizer, conversation)}


def weighed(name: str, weight: float, **options: Any) -> dict[str, Any]:
    return {"name": name, "weight": weight, "options": options}


# The rewards of arXiv:2609.39321 for code: correct 1.0, and 2.1 for form and simplicity; mended there by weighing
# correctness twice, which by this rule is still not enough. Those for GSM8K are 2.0 against 1.7.
CODE = [
    weighed("code_complexity", 1.0), weighed("xml_format", 0.5), weighed("code_syntax", 0.5),
    weighed("xml_tag", 0.1, tag="reasoning"),
]  # fmt: skip


def test_form_that_can_outweigh_the_task_is_named_with_the_key() -> None:
    found = cautions(weighed("code_tests", 1.0, block="only"), *CODE)
    assert list(found) == ["rewards.0.weight"]
    assert "= 2.1 against 1 for code_tests" in found["rewards.0.weight"]
    assert list(cautions(weighed("code_tests", 2.0, block="first"), *CODE)) == ["rewards.0.weight"]
    assert cautions(weighed("code_tests", 2.2, block="only"), *CODE) == {}
    assert list(cautions(weighed("code_tests", 2.2), *CODE)) == ["rewards.0.options.block"]
    gsm8k = [weighed("xml_format", 0.5), weighed("numeric", 0.5), weighed("xml_tags", 0.5), weighed("xml_tag", 0.2)]
    assert cautions(*gsm8k, weighed("numeric_match", 2.0)) == {}


def test_penalties_count_by_their_range_and_the_default_is_in_order() -> None:
    assert cautions("exact_match") == {}
    assert list(cautions(weighed("stop", 0.4), "exact_match", weighed("repetition", 0.7))) == ["rewards.1.weight"]
    assert list(cautions("stop", "language")) == ["rewards"]


def test_functions_of_ones_own_count_if_they_say_what_they_are(tmp_path, monkeypatch) -> None:
    (tmp_path / "own_rewards.py").write_text(
        "def silent(completions, **_):\n    return [0.0] * len(completions)\n"
        "def wide(completions, **_):\n    return [0.0] * len(completions)\n"
        "wide.kind, wide.reward_range = 'shape', (-5, 5)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert cautions("exact_match", weighed("own_rewards:silent", 50.0)) == {}
    assert cautions("own_rewards:silent", "stop") == {}
    assert "wide 10 = 10 against 1" in cautions("exact_match", "own_rewards:wide")["rewards.0.weight"]


@pytest.mark.parametrize(
    ("name", "options", "key"),
    [
        ("soft_overlong", {"max_length": 200, "cache": 50}, "max_length"),
        ("length", {"longest": 100}, "longest"),
        ("repetition", {"ngram": 100}, "ngram"),
    ],
)
def test_what_cannot_vary(name, options, key) -> None:
    found = cautions("exact_match", weighed(name, 0.5, **options))
    assert list(found) == [f"rewards.1.options.{key}"]
    assert "cannot vary" in found[f"rewards.1.options.{key}"]


def test_what_varies_is_left_alone() -> None:
    varied = [weighed("soft_overlong", 0.1), weighed("length", 0.1, longest=50), weighed("repetition", 0.1)]
    assert cautions("exact_match", *varied) == {}


@pytest.mark.parametrize(("option", "value"), [("several", "last"), ("unmarked", "last_number")])
def test_the_last_match_wins(option, value) -> None:
    found = cautions(weighed("numeric_match", 1.0, **{option: value}))
    assert list(found) == [f"rewards.0.options.{option}"]
    assert "runs on" in found[f"rewards.0.options.{option}"]


def test_what_the_tokenizer_cannot_write() -> None:
    small = build_tokenizer()  # digits and signs
    assert "<answer>" in cautions("exact_match", weighed("xml_format", 0.5), tokenizer=small)["rewards.1.options.tags"]
    assert list(cautions(weighed("numeric_match", 1.0, unmarked="nothing"), tokenizer=small)) == []
    only = weighed("numeric_match", 1.0, unmarked="nothing", marks=["boxed"])
    assert list(cautions(only, tokenizer=small)) == ["rewards.0.options.marks"]
    wide = build_tokenizer("</>answer")
    assert cautions("exact_match", weighed("xml_tag", 0.5), tokenizer=wide) == {}
    wide.add_special_tokens({"additional_special_tokens": ["<answer>"]})
    assert "special token" in cautions("exact_match", weighed("xml_tag", 0.5), tokenizer=wide)["rewards.1.options.tag"]


def test_thinking_that_the_chat_template_opens() -> None:
    opens = "<|User|>…<|Assistant|><think>\n"
    found = cautions("numeric_match", "exact_match", conversation=opens)
    assert list(found) == ["rewards.0.options.opened"]
    assert "opens <think>" in found["rewards.0.options.opened"]
    thinks = weighed("xml_format", 0.5, tags=["think", "answer"])
    assert "none has the form" in cautions("exact_match", thinks, conversation=opens)["rewards.1.options.opened"]
    assert cautions("exact_match", weighed("xml_format", 0.5), conversation=opens) == {}
    for tags, key in (
        (weighed("xml_tag", 0.1, tag="think"), "tag"),
        (weighed("xml_tags", 0.1, tags=["think"]), "tags"),
    ):
        assert list(cautions("exact_match", tags, conversation=opens)) == [f"rewards.1.options.{key}"]
    for chosen in (True, False):
        assert cautions(weighed("numeric_match", 1.0, opened=chosen), conversation=opens) == {}
    assert cautions("numeric_match", conversation="<|User|>…<|Assistant|>") == {}
