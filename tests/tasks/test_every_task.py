"""What holds for every task of the package."""

from __future__ import annotations

import pytest

from grpodyn.embedded.bases import BASES
from grpodyn.embedded.tokenizer import build_tokenizer
from grpodyn.errors import UnknownNameError
from grpodyn.tasks import SPLITS, Task, task, task_names, word_for_word
from grpodyn.tasks.arithmetic_stages import STAGE_NAMES, ArithmeticCurriculum
from grpodyn.tasks.splits import split_of


@pytest.fixture(params=[name for name in task_names() if word_for_word(name)])
def any_task(request):
    return task(request.param)


def test_keeps_the_protocol(any_task):
    assert isinstance(any_task, Task)
    with pytest.raises(UnknownNameError, match="did you mean 'report'"):
        any_task.split("reports")


def test_no_prompt_is_in_two_splits_or_twice_in_one(any_task):
    prompts = [prompt for split in SPLITS for prompt in any_task.split(split).prompts]
    assert len(set(prompts)) == len(prompts)
    # The stages of a curriculum are tested on a hundred prompts, and there are no more sums of two digits and one.
    least = 90 if any_task.name in STAGE_NAMES else 460 if any_task.name == ArithmeticCurriculum.name else 1000
    assert min(len(any_task.split(split)) for split in SPLITS) >= least
    for split in SPLITS:
        assert {split_of(prompt) for prompt in any_task.split(split).prompts} == {split}


def test_is_the_same_each_time(any_task):
    again = task(any_task.name)
    assert all(any_task.split(split) == again.split(split) for split in SPLITS)


def test_dataset_has_the_columns_that_trainers_and_rewards_read(any_task):
    data = any_task.to_dataset("choose")
    assert data.column_names == ["prompt", "answer"]
    first = any_task.split("choose").head(1)
    assert data[0] == {"prompt": first.prompts[0], "answer": first.answers[0]}
    assert len(data) == len(any_task.split("choose"))


def test_has_a_base_whose_tokenizer_knows_its_texts(any_task):
    whole = ArithmeticCurriculum.name if any_task.name in STAGE_NAMES else any_task.name
    base = next(base for base in BASES.values() if base.task == whole)
    tokenizer = build_tokenizer(base.characters)
    assert len(set(base.characters)) == len(base.characters)
    for split in SPLITS:
        examples = any_task.split(split)
        known = {i for ids in tokenizer([*examples.prompts, *examples.answers])["input_ids"] for i in ids}
        assert tokenizer.unk_token_id not in known
