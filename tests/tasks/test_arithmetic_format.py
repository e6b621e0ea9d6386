from __future__ import annotations

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpodyn.errors import UnknownNameError
from grpodyn.tasks import SPLITS, Examples, Task, task, task_names, word_for_word
from grpodyn.tasks.arithmetic_format import WANTED, AnswerFormat, problems
from grpodyn.tasks.splits import split_of


def test_splits_are_disjoint_complete_and_large_enough():
    members = {split: set(task("arithmetic_format").split(split).prompts) for split in SPLITS}
    assert sum(map(len, members.values())) == len(set().union(*members.values())) == len(problems()) == 90 * 90 * 2
    assert min(map(len, members.values())) >= 1000


def test_the_split_of_a_prompt_is_decided_by_its_sha256_alone():
    # `printf '23+45=' | sha256sum` begins a26860512a6f5ff9, which mod 10 is 5; only 0, 1 and 2 are held out.
    assert split_of("23+45=") == "train"
    # `printf '99-63=' | sha256sum` begins 4a0a7ac3eab09d36, which mod 10 is 2.
    assert split_of("99-63=") == "report"


def test_the_split_never_changes():
    # Numbers quoted anywhere stand for exactly these prompts in this order.
    text = "\n".join(task("arithmetic_format").split("report").prompts)
    assert hashlib.sha256(text.encode()).hexdigest().startswith("c74697a47f9cc561")


@pytest.mark.parametrize("split", SPLITS)
def test_every_answer_is_the_right_number_in_the_wanted_format(split):
    examples = task("arithmetic_format").split(split)
    for prompt, answer in zip(examples.prompts, examples.answers, strict=True):
        a, sign, b = re.fullmatch(r"(\d\d)([+-])(\d\d)=", prompt).groups()
        number = int(a) + int(b) if sign == "+" else int(a) - int(b)
        assert answer == f"{number}.0"


def test_the_first_prompts_of_a_split_are_a_fair_sample():
    first = task("arithmetic_format").split("report").head(1000)
    sums = sum("+" in prompt for prompt in first.prompts)
    # 1,000 draws of a fair coin: standard deviation 16, five of them.
    assert 420 < sums < 580
    assert len(set(first.prompts)) == 1000


@given(st.integers(-89, 198), st.integers(-89, 198))
def test_no_two_formats_or_numbers_are_written_alike(one, other):
    written = {form.write(number) for form in AnswerFormat for number in (one, other)}
    assert len(written) == len(AnswerFormat) * len({one, other})


def test_wanted_format():
    assert WANTED.write(68) == "68.0"


def test_dataset_has_the_columns_that_trainers_and_rewards_read():
    data = task("arithmetic_format").to_dataset("choose")
    assert data.column_names == ["prompt", "answer"]
    assert data[0] == {"prompt": task("arithmetic_format").split("choose").prompts[0], "answer": data[0]["answer"]}
    assert len(data) == len(task("arithmetic_format").split("choose"))


def test_tasks_are_found_by_name():
    for name in filter(word_for_word, task_names()):
        assert isinstance(task(name), Task)
        assert task(name).name == name
    with pytest.raises(UnknownNameError, match="did you mean 'arithmetic_format'"):
        task("arithmetic_fromat")
    with pytest.raises(UnknownNameError, match="did you mean 'report'"):
        task("arithmetic_format").split("reports")


def test_examples_must_pair_up():
    with pytest.raises(ValueError, match="2 prompts but 1 answers"):
        Examples(("a", "b"), ("c",))
