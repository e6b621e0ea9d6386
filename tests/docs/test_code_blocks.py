"""Code in the docs runs, and the commands in them are commands.

Python runs page by page, from the top, as a reader would copy it: in a folder with runs, and with what stands for a
reader's own model, optimizer and trainer.
"""

from __future__ import annotations

import doctest
import itertools
import json
import shlex
import tomllib
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import typer.main
import yaml
from peft import LoraConfig

from grpodyn import Recorder, open_run
from grpodyn.cli.app import build
from grpodyn.config.run import RunConfig
from tests.docs.blocks import ROOT, Block, blocks
from tests.simulation.whole_run import write_whole_run

PYTHON = [block for block in blocks("python") if block.note is None]
BY_PAGE = {page: list(group) for page, group in itertools.groupby(PYTHON, key=lambda block: block.page)}
# Other blocks without a language are output, or pictures of folders.
PROGRAMS = ("grpodyn", "accelerate", "torchrun", "python", "papermill", "make")
COMMANDS = [
    (block, line)
    for block in blocks("")
    for line in block.code.replace("\\\n", " ").splitlines()
    if line.split() and line.split()[0] in PROGRAMS
]


class OwnModel(torch.nn.Module):
    """Stands for a reader's model: one matrix, and an output with a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> SimpleNamespace:
        return SimpleNamespace(loss=self.linear(x).square().mean())


class OwnTrainer:
    """Stands for a reader's trainer, which the tests of recording are about."""

    def __init__(self, *_: Any, **settings: Any) -> None:
        for callback in settings.get("callbacks", ()):
            assert hasattr(callback, "on_step_end")

    def train(self) -> None:
        pass


def what_a_reader_has() -> dict[str, Any]:
    model = OwnModel()
    return {
        "__name__": "docs",
        "GRPOConfig": SimpleNamespace,
        "GRPOTrainer": OwnTrainer,
        "batches": [{"x": torch.ones(2, 4)}] * 3,
        "dataset": [],
        "model": model,
        "optimizer": torch.optim.AdamW(model.parameters()),
        "recorder": Recorder("runs/own"),
        "rewards": [],
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reader")
    for i, name in enumerate(("a", "first", "full", "lora")):
        write_whole_run(folder / "runs" / name, layers=2, steps=30, seed=i)
    saved = LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj"]).to_dict()
    saved = {key: sorted(value) if isinstance(value, set) else value for key, value in saved.items()}
    (folder / "lora.json").write_text(json.dumps(saved))
    return folder


def run_block(block: Block, names: dict[str, Any]) -> None:
    source = "\n" * (block.line - 1) + block.code
    if ">>>" not in block.code:
        exec(compile(source, str(block.page), "exec"), names)
        return
    example = doctest.DocTestParser().get_doctest(block.code, names, str(block), str(block.page), block.line)
    failed, _ = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, clear_globs=False)
    assert not failed


@pytest.mark.parametrize("page", BY_PAGE, ids=lambda page: page.name)
def test_python_runs(folder: Path, monkeypatch: pytest.MonkeyPatch, page: Path) -> None:
    monkeypatch.chdir(folder)
    names = what_a_reader_has()
    with warnings.catch_warnings():
        # Of third parties, at what a reader's code imports.
        warnings.simplefilter("ignore")
        for block in BY_PAGE[page]:
            try:
                run_block(block, names)
            except Exception as error:
                raise AssertionError(f"{block}: {type(error).__name__}: {error}") from error


def test_a_loop_of_ones_own_was_recorded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (block,) = [block for block in PYTHON if "recorder.attach(" in block.code]
    names = what_a_reader_has()
    run_block(block, names)
    run = open_run(names["recorder"].run_dir)
    assert run.tensors.step.values.tolist() == [1, 2, 3]


@pytest.mark.parametrize("block", [block for block in blocks("python") if block.note is not None], ids=str)
def test_what_does_not_run_here_says_where_it_does_or_why_not(block: Block) -> None:
    compile(block.code, str(block), "exec")
    assert block.note is not None
    if block.note.startswith("run by "):
        assert block.page.name in (ROOT / block.note.removeprefix("run by ")).read_text(encoding="utf-8")
    else:
        assert block.note.startswith("not run: ")


@pytest.mark.parametrize("block", blocks("yaml", "toml"), ids=str)
def test_settings_can_be_read(block: Block) -> None:
    if block.language == "toml":
        assert tomllib.loads(block.code)
        return
    content = yaml.safe_load(block.code)
    if block.page.name == "run-config.md":
        RunConfig.model_validate(content)


def test_only_known_languages() -> None:
    assert not [str(block) for page in [blocks("bash", "sh", "console", "json")] for block in page]


def own_commands() -> list[Any]:
    found = []
    for block, line in COMMANDS:
        words = shlex.split(line, comments=True)
        for start, word in enumerate(words):
            if word == "grpodyn" and (start == 0 or words[start - 1] == "-m"):
                found.append(pytest.param(words[start + 1 :], id=f"{block}: {line[:60]}"))
                break
    return found


@pytest.mark.parametrize("words", own_commands())
def test_commands_take_what_the_docs_give_them(words: list[str]) -> None:
    if "--" in words:
        words = words[: words.index("--")]
    group: Any = typer.main.get_command(build())
    while words and words[0] in ("--quiet", "--verbose"):
        words = words[1:]
    if words[:1] and words[0].startswith("--"):
        assert any(words[0] in option.opts for option in group.params), words
        return
    name, *rest = words
    command = group.get_command(group.context_class(group), name)
    assert command is not None, f"there is no command {name!r}"
    rest = [word for word in rest if word not in ("…", "|", "head")]
    command.make_parser(command.context_class(command)).parse_args(args=rest)


def test_make_targets_exist() -> None:
    targets = {line.split(":")[0] for line in (ROOT / "Makefile").read_text().splitlines() if ":" in line}
    asked = {words[1] for _, line in COMMANDS if (words := line.split())[0] == "make" and len(words) > 1}
    assert asked <= targets
