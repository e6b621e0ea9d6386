"""How prompts are put, compared between the stages of a run, without a model."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import jinja2
import pytest
from datasets import Dataset

from grpodyn.config.run import from_dict
from grpodyn.config.task import TaskConfig
from grpodyn.errors import ConfigError
from grpodyn.training.checks import cautions, token_counts
from grpodyn.training.templates import check_templates, rendered

OWN = "End with a line that holds ####"
"""Of the task gsm8k's own instruction."""


def no_system(messages: Any, **_: Any) -> str:
    if messages[0]["role"] == "system":
        raise jinja2.TemplateError("System role not supported")
    return "".join(f"<{message['role']}>{message['content']}" for message in messages)


def joined(messages: Any, **_: Any) -> str:
    return "".join(f"<{message['role']}>{message['content']}" for message in messages)


TOKENIZER = SimpleNamespace(chat_template="…", apply_chat_template=joined)


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"question": f"{n}+1?", "answer": f"#### {n + 1}"}) + "\n" for n in range(30)))
    return str(path)


def test_a_task_s_own_instruction_is_shown_where_it_is_used(rows):
    assert OWN in rendered(TaskConfig(name="gsm8k", dataset=rows), TOKENIZER)
    assert OWN in rendered(TaskConfig(name="gsm8k", dataset=rows, chat=True), TOKENIZER)
    # A system's message says how to answer: the instruction is left out.
    told = TaskConfig(name="gsm8k", dataset=rows, chat=True, system="Be brief.")
    assert rendered(told, TOKENIZER) == "<system>Be brief.<user>…the prompt…"
    assert rendered(TaskConfig(name="gsm8k", dataset=rows, template="Q: {prompt}"), TOKENIZER) == "Q: …the prompt…"


def opens(messages: Any, enable_thinking: bool = True, **_: Any) -> str:
    return joined(messages) + "<assistant>" + ("<think>\n" if enable_thinking else "")


TEXT = "2+2=<think>"
TALK = [{"role": "user", "content": "2+2="}]


@pytest.mark.parametrize(
    ("prompt", "grpo", "found"),
    [
        (TALK, {}, ["rewards.0.options.opened"]),
        (TALK, {"chat_template_kwargs": {"enable_thinking": False}}, []),
        (TEXT, {}, []),  # shows it by itself
    ],
)
def test_a_run_is_told_where_its_chat_template_opens_the_thinking(prompt, grpo, found):
    config = from_dict(
        {"model": "embedded", "task": "arithmetic_format", "rewards": ["numeric_match"], "grpo": grpo}, "t"
    )
    tokenizer = SimpleNamespace(chat_template="…", apply_chat_template=opens)
    prompts = Dataset.from_list([{"prompt": prompt}])
    assert [caution.key for caution in cautions(config, prompts, tokenizer)] == found


def test_an_instruction_in_one_stage_alone_is_refused(rows):
    def config(**task: Any) -> Any:
        tuned = {"dataset": rows, "prompt": "question", **{key: task[key] for key in ("chat", "system") if key in task}}
        raw = {"model": "embedded", "task": {"name": "gsm8k", "dataset": rows, **task}, "sft": {"task": tuned}}
        return from_dict(raw, "test")

    with pytest.raises(ConfigError, match="put their prompts in different ways"):
        check_templates(config(), TOKENIZER)
    check_templates(config(chat=True, system="Be brief."), TOKENIZER)


def test_what_a_chat_template_refuses_is_a_sentence(rows):
    told = TaskConfig(name="gsm8k", dataset=rows, chat=True, system="Be brief.")
    tokenizer = SimpleNamespace(chat_template="…", apply_chat_template=no_system)
    with pytest.raises(ConfigError, match=r"roles system, user: System role not supported.*leave task\.system out"):
        rendered(told, tokenizer)
    with pytest.raises(ConfigError, match="System role not supported"):
        token_counts([[{"role": "system", "content": "x"}, {"role": "user", "content": "y"}]], tokenizer)
