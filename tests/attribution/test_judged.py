"""Tasks whose right answers are no one text: held-out completions are sampled and judged with all that rewards read."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from grpodyn.ablation.bench import Bench, setup_of
from grpodyn.ablation.protocol import Measure
from grpodyn.attribution.evaluators import Scored
from grpodyn.attribution.request import Request, _judged_prompts, carry_out
from grpodyn.attribution.run import Watcher
from grpodyn.config import run
from grpodyn.config.run import RunConfig
from grpodyn.errors import UsageError
from grpodyn.tasks import Examples
from grpodyn.training import data
from grpodyn.training.data import judged, needs_judge
from grpodyn.training.display import LineDisplay
from grpodyn.training.session import train

SPLITS = {"choose": 6, "confirm": 6}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    """Sums as programs: what the model writes is one if it parses, and its only test is that it runs."""
    path = tmp_path_factory.mktemp("programs") / "programs.jsonl"
    rows = [{"prompt": f"{a}+{b}=", "tests": ["assert True"]} for a in range(10, 40) for b in range(10, 20)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    raw = {
        "model": "embedded",
        "task": {"dataset": str(path), "splits": "hash", "answer": None},
        "rewards": [
            {"name": "code_tests", "options": {"block": "first"}},
            {"name": "length", "options": {"shortest": 1, "longest": 4}, "weight": 0.3},
        ],
        "grpo": {
            "learning_rate": 1e-4,
            "max_steps": 2,
            "per_device_train_batch_size": 16,
            "num_generations": 8,
            "max_completion_length": 6,
            "gradient_checkpointing": False,
        },
        "evaluate": {"prompts": 4, "samples": 4},
        "record": {"preset": "light"},
    }
    return run.from_dict(raw, "here")


def test_examples_carry_what_they_are_judged_by(programs: RunConfig) -> None:
    found = judged(programs.task, "choose", 5, tokenizer=None)
    assert len(found) == 5
    assert found.answers == ("",) * 5
    assert found.columns["tests"] == (["assert True"],) * 5
    twice = found.picked([3, 1]).repeated(2)
    assert twice.prompts == tuple(found.prompts[i] for i in (3, 3, 1, 1))
    assert len(twice.columns["tests"]) == 4
    assert not found.templated


def test_which_runs_need_a_judge(programs: RunConfig) -> None:
    assert needs_judge(programs)
    assert not needs_judge(run.embedded())
    assert needs_judge(run.embedded(["task.chat=true", "evaluate=null"]))


def test_conversations_are_read_as_the_template_writes_them_and_judged_as_messages(programs: RunConfig) -> None:
    class Tokenizer:
        chat_template = "a template"

        def apply_chat_template(self, messages: Any, **more: Any) -> str:
            return f"<user>{messages[-1]['content']}<assistant>{more.get('think', '')}"

    talks = programs.task.model_copy(update={"chat": True})
    found = judged(talks, "choose", 2, Tokenizer(), {"think": "…"})
    assert found.templated
    assert all(text.startswith("<user>") and text.endswith("<assistant>…") for text in found.prompts)
    seen: list[Any] = []

    def judge(prompts: Any, completions: Any, tests: Any, **_: Any) -> list[float]:
        seen.extend([prompts, completions, tests])
        return [float(i % 2) for i in range(len(completions))]

    values = Scored(((judge, 1.0),)).of_prompts(found, ["a", "b", "c", "d"], [[1]] * 4, 2)
    assert np.array_equal(values, [0.5, 0.5])
    prompts, completions, tests = seen
    assert prompts[0] == prompts[1] == [{"role": "user", "content": found.prompts[0][6:-12]}]
    assert completions[2] == [{"role": "assistant", "content": "c"}]
    assert len(tests) == 4


def test_repeated_rows_count_once_and_what_was_seen_is_held_against_them(
    programs: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = Path(str(programs.task.dataset)).read_text()
    (tmp_path / "twice.jsonl").write_text(rows + rows)
    task = programs.task.model_copy(update={"dataset": str(tmp_path / "twice.jsonl")})
    twice = programs.model_copy(update={"task": task})
    once = _judged_prompts(Request(), programs, None)
    found = _judged_prompts(Request(), twice, None)
    assert len(set(found.choose.prompts)) == len(found.choose) == len(once.choose)
    assert len(set(found.confirm.prompts)) == len(found.confirm) == len(once.confirm)
    # Where data's splits overlap, as published ones may, neither of the two sets may be of the report.
    given = judged(programs.task, "report", 1, None)
    monkeypatch.setattr(data, "judged", lambda *_: given)
    with pytest.raises(UsageError, match="is in `choose` and in `confirm`"):
        _judged_prompts(Request(), programs, None)
    apart = {"choose": once.choose, "confirm": given}
    monkeypatch.setattr(data, "judged", lambda _task, split, *_: apart[split])
    with pytest.raises(UsageError, match="is in `confirm` and in `report`"):
        _judged_prompts(Request(), programs, None)


@pytest.mark.slow
def test_a_run_on_programs_is_attributed_by_sampling(programs: RunConfig, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    train(programs, run_dir, LineDisplay(Console(file=io.StringIO())))
    found = carry_out(Request(run=run_dir, prompts=6, ranks=(), null_draws=0, most=4), tmp_path, Watcher())
    # The judge alone, as the run's own held-out accuracy: no reward for form.
    assert "mean of 4 samples" in found.sources["evaluator"]
    assert "1·code_tests" in found.sources["evaluator"]
    assert "length" not in found.sources["evaluator"]
    assert {name: one["prompts"] for name, one in found.sources["prompts"].items() if name != "source"} == SPLITS
    assert 0 <= found.base.low <= found.base.value <= found.base.high <= 1
    with pytest.raises(UsageError, match="--split report"):
        carry_out(Request(run=run_dir, split="report"), tmp_path, Watcher())


@pytest.mark.slow
def test_an_ablation_measures_programs_by_sampling(programs: RunConfig) -> None:
    setup = setup_of(programs, Measure(prompts=6))
    assert setup == setup_of(programs, Measure(prompts=6))
    bench = Bench(setup)
    _, examples = bench.examples("test")
    measured = bench._measured(bench.base, examples, "test")
    assert 0 <= measured.accuracy <= 1.3
    assert isinstance(examples, Examples)
    assert examples.columns["tests"] == (["assert True"],) * 6
