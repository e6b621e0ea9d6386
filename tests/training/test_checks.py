"""What is refused before a model is loaded, and what is left out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from grpodyn.config.run import from_dict
from grpodyn.embedded.tokenizer import build_tokenizer
from grpodyn.errors import ConfigError
from grpodyn.rewards import RewardContext
from grpodyn.sandbox import walls
from grpodyn.training import build, loading
from grpodyn.training.checks import fitting, reward_functions
from grpodyn.training.data import train_prompts
from grpodyn.training.plan import plan_run

ROWS = [{"question": f"{n}+1=", "solution": str(n + 1), "level": n, "also": None} for n in range(6)]


def config(folder, rows: list[dict[str, Any]], **changes: Any) -> Any:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = {"dataset": str(path), "prompt": "question", "answer": "solution"} | changes.pop("task", {})
    grpo = {"max_completion_length": 8, "per_device_train_batch_size": 4, "num_generations": 4} | changes.pop(
        "grpo", {}
    )
    return from_dict({"model": "embedded", "task": task, "grpo": grpo} | changes, "test")


def test_a_machine_that_cannot_judge_is_refused_before_training_but_not_for_a_look(tmp_path, monkeypatch) -> None:
    code = config(tmp_path, ROWS, rewards=["code_syntax"])
    monkeypatch.setattr(walls, "_tried", lambda: dict.fromkeys((walls.Kind.BUBBLEWRAP, walls.Kind.NAMESPACES), "no"))
    with pytest.raises(ConfigError, match=r"no walls can be built here.*Install bubblewrap"):
        reward_functions(code, RewardContext())
    assert len(reward_functions(code)) == 1
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"without math_verify: pip install 'grpodyn\[tasks\]'"):
        reward_functions(config(tmp_path, ROWS, rewards=["math_match"]), RewardContext())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"task": {"answer": None}},
            ["exact_match reads `answer`", "it has: prompt, solution, level, also", "task.answer"],
        ),
        ({"task": {"answer": "also"}}, ["row 0", "nothing in `answer`"]),
        ({"rewards": ["code_tests"]}, ["`tests` or `cases`", "task.columns.tests"]),
        ({"rewards": ["multiple_choice"]}, ["multiple_choice, row 0", "'1' is no letter"]),
        (
            {"task": {"answer": "level"}},
            ["exact_match, row 0", "the answer 0 is a int, expected text", "numeric_match"],
        ),
        ({"rewards": ["numeric_mach"]}, ["did you mean 'numeric_match'?"]),
        ({"rewards": [{"name": "stop", "options": {"x": 1}}]}, ["stop has no option 'x'"]),
        ({"task": {"max_prompt_tokens": 3}}, ["6 of 6 prompts have more than 3 tokens", "longest has 4", "drop"]),
        ({"grpo": {"max_completion_length": 61}}, ["more than 3 tokens", "context of 64"]),
        ({"grpo": {"max_completion_length": 64}}, ["max_completion_length is 64", "64 tokens for prompt and"]),
        ({"grpo": {"num_generations": 3}}, ["num_generations is 3", "use num_generations 2 or 4"]),
        ({"task": {"chat": True}}, ["no chat template", "task.chat to false"]),
    ],
)
def test_is_refused_before_the_model_is_loaded(tmp_path, monkeypatch, changes, words) -> None:
    monkeypatch.setattr(loading, "load_model", lambda _: pytest.fail("a model was loaded"))
    with pytest.raises(Exception) as caught:  # noqa: PT011
        build.build_trainer(config(tmp_path, ROWS, **changes), tmp_path / "run")
    assert isinstance(caught.value, ConfigError) or "did you mean" in str(caught.value)
    for word in words:
        assert word in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_plan_warns_and_refuses_as_the_run_does(tmp_path) -> None:
    wanted = config(tmp_path, ROWS, rewards=["exact_match", {"name": "stop", "weight": 2.0}], grpo={"max_steps": 1})
    assert [caution.key for caution in plan_run(wanted).cautions] == ["rewards.0.weight"]
    with pytest.raises(ConfigError, match="6 of 6 prompts"):
        plan_run(config(tmp_path, ROWS, task={"max_prompt_tokens": 3}))
    longer = [*ROWS, {"question": "10000+1=", "solution": "10001", "level": 0, "also": None}]
    of_rows = {"max_prompt_tokens": 4, "split": f"train[:{len(ROWS)}]"}
    sampled = {"samples": 2, "split": f"train[{len(ROWS)}:]"}
    with pytest.raises(ConfigError, match="1 of 1 held-out prompts"):
        plan_run(config(tmp_path, longer, task=of_rows, evaluate=sampled))


def test_longer_prompts_are_dropped_if_asked(tmp_path) -> None:
    rows = [*ROWS, {"question": "10000+1=", "solution": "10001", "level": 0, "also": None}]
    wanted = config(tmp_path, rows, task={"max_prompt_tokens": 4, "too_long": "drop"})
    assert len(fitting(wanted, train_prompts(wanted.task), build_tokenizer())) == 6
    none = config(tmp_path, rows, task={"max_prompt_tokens": 2, "too_long": "drop"})
    with pytest.raises(ConfigError, match="7 of 7 prompts"):
        fitting(none, train_prompts(none.task), build_tokenizer())
