from __future__ import annotations

import json

import pytest

from grpodyn.config.run import TaskConfig
from grpodyn.errors import ConfigError, UnknownNameError
from grpodyn.training.data import describe, held_out, train_prompts

ROWS = [{"question": f"{n}+1=", "solution": str(n + 1), "level": n} for n in range(6)]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "sums.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def columns(path, **more) -> TaskConfig:
    return TaskConfig(dataset=str(path), prompt="question", answer="solution", **more)


def test_a_task_of_the_package() -> None:
    data = train_prompts(TaskConfig(name="arithmetic_format", limit=10))
    assert len(data) == 10
    assert set(data.column_names) == {"prompt", "answer"}


def test_a_file_with_its_own_columns_and_the_rest_handed_on(file) -> None:
    data = train_prompts(columns(file))
    assert data[2] == {"prompt": "2+1=", "answer": "3", "level": 2}


def test_a_column_in_the_way_gives_way_and_two_can_change_places(file) -> None:
    assert train_prompts(TaskConfig(dataset=str(file), prompt="question", answer="level"))[2] == {
        "prompt": "2+1=", "answer": 2, "solution": "3",
    }  # fmt: skip
    swapped = file.with_name("swapped.jsonl")
    swapped.write_text(json.dumps({"prompt": "3", "answer": "2+1="}) + "\n")
    assert train_prompts(TaskConfig(dataset=str(swapped), prompt="answer", answer="prompt"))[0] == {
        "prompt": "2+1=", "answer": "3",
    }  # fmt: skip


def test_a_chat_prompt_is_one_message_of_the_user(file) -> None:
    data = train_prompts(columns(file, chat=True))
    assert data[0]["prompt"] == [{"role": "user", "content": "0+1="}]


def test_the_manifest_says_where_prompts_come_from() -> None:
    assert describe(TaskConfig(dataset="openai/gsm8k", subset="main", revision="v1", split="test")) == {
        "name": "openai/gsm8k", "subset": "main", "revision": "v1", "split": "test",
    }  # fmt: skip


def test_held_out_prompts_are_another_part_of_the_file(file) -> None:
    task = columns(file, split="train[:3]")
    assert held_out(task, "train[3:]", prompts=2).prompts == ("3+1=", "4+1=")
    assert held_out(task, "train[3:]", prompts=9).answers == ("4", "5", "6")


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ({"dataset": "absent.jsonl"}, ["absent.jsonl", "no such file"]),
        ({"prompt": "questoin"}, ["task.prompt is 'questoin'", "did you mean 'question'?"]),
        ({"prompt": "question", "answer": "x"}, ["task.answer is 'x'", "it has: question, solution, level"]),
        ({"split": "test"}, ["split 'test'", "cannot be loaded"]),
    ],
)
def test_what_is_missing_is_named(file, task, words) -> None:
    with pytest.raises(ConfigError) as caught:
        train_prompts(TaskConfig(**({"dataset": str(file)} | task)))
    for word in words:
        assert word in str(caught.value)


def test_accuracy_is_not_measured_on_what_is_trained(file) -> None:
    with pytest.raises(ConfigError, match="which is trained on"):
        held_out(TaskConfig(name="arithmetic_format"), "train", 10)
    with pytest.raises(UnknownNameError, match="reprot"):
        held_out(TaskConfig(name="arithmetic_format"), "reprot", 10)


def test_exact_accuracy_needs_text(file) -> None:
    with pytest.raises(ConfigError, match=r"needs text in `task\.prompt`"):
        held_out(columns(file, split="train[:3]", chat=True), "train[3:]", 2)
    with pytest.raises(ConfigError, match=r"set task\.answer"):
        held_out(TaskConfig(dataset=str(file), prompt="question", answer=None, split="train[:3]"), "train[3:]", 2)


def test_a_held_out_split_without_prompts_is_refused_before_training(tmp_path) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps({"prompt": "1+1=", "answer": "2"}) + "\n")
    # One row falls into one part of three, by a hash of it: not into this one.
    with pytest.raises(ConfigError, match=r"the split 'report' of .*one\.jsonl holds no prompts"):
        held_out(TaskConfig(dataset=str(path), splits="hash"), "report", 5)


@pytest.mark.parametrize("more", [{}, {"template": "Q: {prompt}"}, {"chat": True}])
@pytest.mark.parametrize("prompt", [None, 7])
def test_a_prompt_that_is_no_text_is_refused_with_its_row(tmp_path, prompt, more) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"prompt": one, "answer": "1"}) + "\n" for one in ([prompt] * 3)))
    with pytest.raises(ConfigError, match=f"row 0 of .* has {prompt} as its prompt"):
        train_prompts(TaskConfig(dataset=str(path), **more))
