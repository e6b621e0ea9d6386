"""Prompts, kept apart: what chooses, what confirms, and what a run has seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grpodyn.attribution import request as requests
from grpodyn.attribution.prompts import check_apart, divided, from_file, of_task
from grpodyn.attribution.request import Request
from grpodyn.config import run as run_config
from grpodyn.errors import ConfigError, UsageError
from grpodyn.tasks import Examples, task
from tests.attribution.lines import from_lines


def test_a_task_gives_choose_and_confirm_and_nothing_else() -> None:
    found = of_task(task("arithmetic_format"), "choose", 100)
    assert len(found.choose) == len(found.confirm) == 100
    assert not set(found.choose.prompts) & set(found.confirm.prompts)
    assert found.digests()["choose"]["sha256"] != found.digests()["confirm"]["sha256"]
    for split in ("train", "confirm", "report"):
        with pytest.raises(UsageError, match=f"--split {split}"):
            of_task(task("arithmetic_format"), split, 100)


def test_prompts_of_a_file_are_divided_by_hash_and_each_counts_once(tmp_path: Path) -> None:
    examples = from_lines(200)
    twice = Examples(examples.prompts * 2, examples.answers * 2)
    found = divided(twice, 1000, "file")
    assert len(found.choose) + len(found.confirm) == 200
    # Which side a prompt is on does not depend on the others.
    part = divided(from_lines(100), 1000, "file")
    assert set(part.choose.prompts) <= set(found.choose.prompts)
    with pytest.raises(UsageError, match="is in `choose` and in `train`"):
        divided(examples, 1000, "file", [("train", found.choose.prompts[:1])])
    with pytest.raises(UsageError, match="is in `confirm` and in `report`"):
        divided(examples, 1000, "file", [("train", ["x"]), ("report", ["x", found.confirm.prompts[0]])])
    with pytest.raises(UsageError, match="too few"):
        divided(from_lines(1), 1000, "file")
    with pytest.raises(UsageError, match="is in `a` and in `b`"):
        check_apart({"a": ["x"], "b": ["x"]})


def test_a_task_named_for_a_run_is_held_against_what_the_run_was_trained_on(tmp_path: Path) -> None:
    prompt = task("arithmetic_format").split("choose").prompts[0]
    lines = [json.dumps({"prompt": p, "answer": "7"}) for p in ("1+1=", prompt)]
    (tmp_path / "own.jsonl").write_text("\n".join(lines))
    config = run_config.embedded([f"task={json.dumps({'dataset': str(tmp_path / 'own.jsonl')})}", "evaluate=null"])
    with pytest.raises(UsageError, match="is in `choose` and in `train`"):
        requests._prompts(Request(task="arithmetic_format", prompts=5000), config)
    talks = config.model_copy(update={"task": config.task.model_copy(update={"chat": True})})
    with pytest.raises(UsageError, match="is in `choose` and in `train`"):
        requests._prompts(Request(task="arithmetic_format", prompts=5000), talks)


def test_a_file_is_held_against_the_report_of_the_run(tmp_path: Path) -> None:
    report = task("arithmetic_format").split("report")
    file = tmp_path / "p.jsonl"
    lines = [json.dumps({"prompt": p, "answer": a}) for p, a in zip(report.prompts, report.answers, strict=True)]
    file.write_text("\n".join(lines))
    with pytest.raises(UsageError, match=r"is in `(choose|confirm)` and in `report`"):
        requests._prompts(Request(prompts_file=file), run_config.embedded())


def test_the_split_that_a_run_measured_itself_on_is_used_only_if_it_is_named(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "data")
    for split, start in (("train", 0), ("test", 100), ("validation", 200)):
        lines = [json.dumps({"prompt": f"{start + i}+1=", "answer": "7"}) for i in range(40)]
        (folder / f"{split}.jsonl").write_text("\n".join(lines))
    settings = {"evaluate": '{"split": "test", "prompts": 20}', "task": json.dumps({"dataset": str(folder)})}
    config = run_config.embedded([f"{name}={value}" for name, value in settings.items()])
    named = requests._prompts(Request(split="test"), config)
    assert named.source == f"{folder}, test, on which the run's own accuracy was measured"
    assert requests._prompts(Request(split="validation"), config).source == f"{folder}, validation"
    file = tmp_path / "p.jsonl"
    file.write_text((folder / "test.jsonl").read_text())
    with pytest.raises(UsageError, match="and in `report`"):
        requests._prompts(Request(prompts_file=file), config)


@pytest.mark.parametrize("line", ["nonsense", '{"prompt": "a"}', '{"prompt": 1, "answer": "a"}', "[1]"])
def test_lines_that_are_no_prompts_are_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "p.jsonl").write_text('{"prompt": "a", "answer": "b"}\n\n' + line)
    with pytest.raises(ConfigError, match=r"p\.jsonl:3"):
        from_file(tmp_path / "p.jsonl")


def _folder(path: Path) -> Path:
    path.mkdir()
    return path
