"""What `grpodyn record` refuses or answers before it imports torch."""

from __future__ import annotations

import json
import sys

import pytest

from grpodyn.cli.app import main
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.writer import TraceWriter


@pytest.fixture
def grpodyn(monkeypatch, tmp_path, capsys):
    """Run the command line in an empty folder; return (exit code, standard error)."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["grpodyn", *arguments])
        # Should anything here go on to train, it fails at once instead of training for minutes.
        monkeypatch.setitem(sys.modules, "grpodyn.training.session", None)
        with pytest.raises(SystemExit) as caught:
            main()
        return int(caught.value.code or 0), capsys.readouterr().err

    return run


def test_a_used_directory_is_refused_and_left_as_it_is(grpodyn, tmp_path) -> None:
    used = tmp_path / "runs" / "embedded"
    used.mkdir(parents=True)
    (used / "notes.txt").write_text("mine")
    code, error = grpodyn("record")
    assert code == 2
    assert "runs/embedded is not empty" in error
    assert "--resume" in error
    assert [path.name for path in used.iterdir()] == ["notes.txt"]


def test_a_directory_that_another_process_writes_is_refused_even_to_resume(grpodyn, tmp_path) -> None:
    # The lock belongs to an open file, so that within one process too a second writer is told from the first.
    writer = TraceWriter.create(tmp_path / "live", Manifest(config=json.loads(embedded_json())))
    try:
        code, error = grpodyn("record", "--run-dir", "live", "--resume")
    finally:
        writer.close("finished")
    assert code == 2
    assert "is being written by process" in error


def embedded_json() -> str:
    from grpodyn.config import run  # noqa: PLC0415

    return json.dumps(run.embedded().to_dict())


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--set", "grpo.num_generations=7"], 2, ["num_generations is 7", "128 completions"]),
        (["--set", "sed=1"], 2, ["unknown key `sed`", "did you mean 'seed'?"]),
        (["--set", "seed"], 2, ["expected key=value"]),
        (["absent.yaml"], 2, ["no config file absent.yaml"]),
        (["--lora", "absent.json"], 2, ["no file absent.json", "recommend-lora"]),
        (["--run-dir", "a", "--name", "b"], 2, ["give one of them"]),
        (["--name", "n" * 300], 2, ["a name of 300 bytes", "at most 255", "--name"]),
        (["--resume"], 3, ["runs/embedded", "holds no run"]),
    ],
)
def test_mistakes_end_with_a_sentence_and_nothing_written(grpodyn, tmp_path, arguments, code, words) -> None:
    ended, error = grpodyn("record", *arguments)
    assert ended == code
    for word in words:
        assert word in error
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_place_of_the_directory_is_refused(grpodyn, tmp_path) -> None:
    (tmp_path / "a").write_text("")
    assert grpodyn("record", "--run-dir", "a") == (2, "grpodyn: a is a file, expected a directory to record into\n")


def test_changed_settings_are_refused_on_resume(grpodyn, tmp_path) -> None:
    TraceWriter.create(tmp_path / "a", Manifest(config=json.loads(embedded_json()))).close("stopped_early")
    code, error = grpodyn("record", "--run-dir", "a", "--resume", "--set", "grpo.learning_rate=1.0")
    assert code == 2
    assert "`grpo.learning_rate` was" in error


def test_a_run_of_somebodys_own_script_is_not_resumed_here(grpodyn, tmp_path) -> None:
    TraceWriter.create(tmp_path / "a", Manifest()).close("stopped_early")
    code, error = grpodyn("record", "--run-dir", "a", "--resume")
    assert code == 2
    assert "a script of its own" in error


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[1, 2]", "holds no LoRA config"),
        ('{"target_modules": ["q_proj"]}', "holds no LoRA config"),
        ('{"peft_config": {"r": 8, "peft_type": "IA3"}}', "peft_type 'IA3'"),
        ('{"r": 8', "not readable JSON"),
    ],
)
def test_a_lora_file_must_hold_a_lora_config(grpodyn, tmp_path, content: str, words: str) -> None:
    (tmp_path / "lora.json").write_text(content)
    code, error = grpodyn("record", "--lora", "lora.json")
    assert code == 2
    assert words in error


def test_the_rate_that_advice_names_is_pointed_at_and_not_taken_over_unasked(grpodyn, tmp_path) -> None:
    advice = {"peft_config": {"r": 8, "target_modules": "all-linear"}, "training": {"learning_rate": 9e-5}}
    (tmp_path / "lora.json").write_text(json.dumps(advice))
    (tmp_path / "runs" / "embedded-lora").mkdir(parents=True)
    (tmp_path / "runs" / "embedded-lora" / "x").write_text("")  # so that it ends before it trains
    rate = "grpo.learning_rate=9e-05"
    code, error = grpodyn("record", "--lora", "lora.json", "--set", "grpo.learning_rate=1e-5")
    assert code == 2
    assert f"advises a learning rate of 9e-05, this run has 1e-05; to follow it: --set {rate}" in error
    assert "advises" not in grpodyn("record", "--lora", "lora.json", "--set", rate)[1]


def test_help_needs_no_torch_and_shows_an_example(grpodyn, capsys, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(sys, "argv", ["grpodyn", "record", "--help"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 0
    assert "grpodyn record config.yaml --set grpo.learning_rate=1e-5" in capsys.readouterr().out.replace("\n", " ")
