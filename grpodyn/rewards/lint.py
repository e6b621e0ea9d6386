"""What of a run's rewards is likely to be regretted, found before it starts. Cautions, not errors: someone may mean it.

The rule on weights is that of a published study whose shaping rewards for code added up to 2.1 against 1.0 for being
correct (arXiv:2609.39321); it was mended there by weighing correctness more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from grpodyn.rewards.answers import MARKS
from grpodyn.rewards.known import KNOWN
from grpodyn.rewards.thinking import opened_thinking

_WRITTEN = {"boxed": r"\boxed{", "answer_tag": "<answer>", "hashes": "####", "final_answer": "answer is"}


class Weighed(Protocol):
    """An entry of `rewards` in a run config."""

    @property
    def name(self) -> str:
        """The reward."""
        ...

    @property
    def weight(self) -> float:
        """In the sum."""
        ...

    @property
    def options(self) -> Mapping[str, Any]:
        """What is set of it."""
        ...

    @property
    def recorded_as(self) -> str:
        """The name it is recorded under."""
        ...


@dataclass(frozen=True)
class Caution:
    """Something that is likely to be regretted."""

    key: str
    """Of the config, as `--set` takes it."""
    text: str
    """What is to be expected, and what to do."""

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


def lint(
    rewards: Sequence[Weighed],
    functions: Sequence[Any],
    max_length: int,
    tokenizer: Any | None = None,
    conversation: str = "",
) -> list[Caution]:
    """Return what is likely to be regretted.

    Args:
        rewards: entries of a run config.
        functions: the function of each; one of the user's may say its `kind` and `reward_range`.
        max_length: tokens after which a completion is cut off.
        tokenizer: of the model, for what it can write; None leaves that out.
        conversation: a prompt in messages as the chat template writes it; empty if prompts are text, whose end rewards
            see for themselves.
    """
    cautions = list(_outweighed(rewards, functions))
    for place, reward in enumerate(rewards):
        cautions += _constant(place, reward, max_length)
        cautions += _last_wins(place, reward)
        cautions += _thought_for_answer(place, reward, conversation)
        if tokenizer is not None:
            cautions += _unwritable(place, reward, tokenizer)
    return cautions


def _outweighed(rewards: Sequence[Weighed], functions: Sequence[Any]) -> Iterator[Caution]:
    spans: dict[str | None, dict[int, float]] = {"task": {}, "shape": {}, None: {}}
    for place, (reward, function) in enumerate(zip(rewards, functions, strict=True)):
        kind, span = _nature(reward.name, function)
        spans[kind][place] = abs(reward.weight) * span
    task, shape = sum(spans["task"].values()), sum(spans["shape"].values())
    if not spans["task"]:
        if not spans[None]:
            yield Caution(
                "rewards", "none of them says whether the task is done, only how; add one such as numeric_match"
            )
        return
    if shape > task:
        parts = " + ".join(f"{rewards[place].recorded_as} {span:g}" for place, span in spans["shape"].items() if span)
        first = next(iter(spans["task"]))
        yield Caution(
            f"rewards.{first}.weight",
            f"how it is done can outweigh whether it is done: {parts} = {shape:g} against {task:g} for "
            f"{', '.join(rewards[place].recorded_as for place in spans['task'])}. A wrong answer in good form "
            f"then beats a right one in bad form; weigh the task more than {shape:g}",
        )


def _nature(name: str, function: Any) -> tuple[str | None, float]:
    """Return what a reward is for, None if that is not known, and how far its values lie apart."""
    known = KNOWN.get(name)
    if known is not None:
        return known.kind, known.high - known.low
    inner = getattr(function, "func", function)
    kind, bounds = getattr(inner, "kind", None), getattr(inner, "reward_range", None)
    if kind not in ("task", "shape") or not isinstance(bounds, tuple | list) or len(bounds) != 2:
        return None, 0.0
    return kind, float(bounds[1]) - float(bounds[0])


def _constant(place: int, reward: Weighed, max_length: int) -> Iterator[Caution]:
    options = reward.options
    if reward.name == "soft_overlong":
        longest = options.get("max_length", max_length)
        start = longest - (options.get("cache") or max(1, longest // 5))
        if start >= max_length:
            yield Caution(
                f"rewards.{place}.options.max_length",
                f"soft_overlong cannot vary: its penalty begins after {start} tokens, and completions are cut off at "
                f"{max_length}; leave the option out",
            )
    elif reward.name == "length" and options.get("shortest", 1) <= 1 and options.get("longest", 0) >= max_length:
        yield Caution(
            f"rewards.{place}.options.longest",
            f"length cannot vary: every completion of 1 to {options['longest']} tokens gets all of it, and they are "
            f"cut off at {max_length}; lower it",
        )
    elif reward.name == "repetition" and options.get("ngram", 3) >= max_length:
        yield Caution(
            f"rewards.{place}.options.ngram",
            f"repetition cannot vary: no completion of at most {max_length} tokens holds two runs of "
            f"{options.get('ngram', 3)}; lower it",
        )


def _last_wins(place: int, reward: Weighed) -> Iterator[Caution]:
    known = KNOWN.get(reward.name)
    options = {name: option.default for name, option in known.options.items()} if known is not None else {}
    options |= reward.options
    for option, value, instead in (
        ("several", "last", "agree"),
        ("unmarked", "last_number", "whole"),
        ("block", "last", "first or only"),
    ):
        if options.get(option) == value and reward.name not in ("code_syntax", "code_complexity"):
            yield Caution(
                f"rewards.{place}.options.{option}",
                f"{reward.name} takes the last match, so what is said after the answer changes the score, and a "
                f"completion that runs on is judged by where it was cut off; {instead} does not, and the reward stop "
                "pays for ending",
            )


def _thought_for_answer(place: int, reward: Weighed, conversation: str) -> Iterator[Caution]:
    known, tag = KNOWN.get(reward.name), opened_thinking(conversation)
    if known is None or tag is None:
        return
    if (reward.name == "xml_tag" and reward.options.get("tag") == tag) or (
        reward.name == "xml_tags" and tag in reward.options.get("tags", ())
    ):
        option = reward.name.removeprefix("xml_")
        yield Caution(
            f"rewards.{place}.options.{option}",
            f"the chat template opens <{tag}>, so that completions do not, and {reward.name} does not find it; leave "
            "the tag out, or take xml_format with the option opened",
        )
    if "opened" not in known.options or "opened" in reward.options:
        return
    if reward.name == "xml_format":
        if next(iter(reward.options.get("tags", ("reasoning", "answer"))), None) != tag:
            return
        expected = "completions do not, and none has the form that it pays for"
    else:
        expected = "what a completion says while it is still thinking at its end can count as its answer"
    yield Caution(
        f"rewards.{place}.options.opened",
        f"the chat template opens <{tag}>, which {reward.name} does not see: {expected}; set true",
    )


def _unwritable(place: int, reward: Weighed, tokenizer: Any) -> Iterator[Caution]:
    if reward.name in ("xml_format", "xml_tags"):
        option, needed = "tags", [f"<{tag}>" for tag in reward.options.get("tags", ("reasoning", "answer"))]
    elif reward.name == "xml_tag":
        option, needed = "tag", [f"<{reward.options.get('tag', 'answer')}>"]
    elif reward.options.get("unmarked") == "nothing":
        option, needed = "marks", [_WRITTEN[mark] for mark in reward.options.get("marks", MARKS)]
    else:
        return
    lost = [mark for mark in needed if not _writes(tokenizer, mark)]
    if lost and (option != "marks" or len(lost) == len(needed)):
        yield Caution(
            f"rewards.{place}.options.{option}",
            f"{reward.name} cannot vary as it should: {', '.join(lost)} never shows in a completion, because the "
            "tokenizer has no tokens for it or takes it for a special token, which is left out of the text",
        )


def _writes(tokenizer: Any, mark: str) -> bool:
    ids = tokenizer(mark, add_special_tokens=False)["input_ids"]
    text = tokenizer.decode(ids, skip_special_tokens=True)
    return "".join(mark.split()) in "".join(text.split())
