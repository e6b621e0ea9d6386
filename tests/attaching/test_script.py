"""`grpodyn record -- SCRIPT`: somebody's script runs as it would alone, and its trainers are recorded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from grpodyn import open_run
from grpodyn.errors import UsageError
from grpodyn.recording.script import Attachment, after_import, parse

ROOT = Path(__file__).parents[2]
# Third parties' warnings would be in the way of comparing what two runs print.
QUIET = {**os.environ, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}

TRAINER = """
    import sys, torch
    from transformers import Qwen2Config, Qwen2ForCausalLM, Trainer, TrainingArguments
    import beside_it

    def train(steps=2, callbacks=None):
        torch.manual_seed(0)
        config = Qwen2Config(vocab_size=16, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                             num_attention_heads=2, num_key_value_heads=1)
        data = [{"input_ids": torch.arange(6), "labels": torch.arange(6)}] * 16
        arguments = TrainingArguments("out", max_steps=steps, use_cpu=True, report_to=[], disable_tqdm=True,
                                      save_strategy="no", log_level="error", logging_strategy="no")
        trainer = Trainer(Qwen2ForCausalLM(config), arguments, train_dataset=data, callbacks=callbacks)
        trainer.train()
        return trainer
"""


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., str]:
    """Write a script that can `train()`; return its name."""

    def write(body: str, name: str = "train.py", *, trains: bool = True) -> str:
        (tmp_path / "beside_it.py").write_text("")
        head = textwrap.dedent(TRAINER) if trains else "import sys\n"
        (tmp_path / name).write_text(head + textwrap.dedent(body))
        return name

    return write


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*words: str, module: str | None = "grpodyn") -> subprocess.CompletedProcess[str]:
        start = [sys.executable, *(("-m", module) if module else ())]
        return subprocess.run([*start, *words], cwd=tmp_path, env=QUIET, capture_output=True, text=True, check=False)

    return run


SHOW = """
    import os, pickle, __main__
    def annotated(x: int) -> str: ...
    print(annotated.__annotations__, pickle.loads(pickle.dumps(annotated)) is annotated)
    print(sys.argv, __name__, __file__, __spec__, __main__ is sys.modules["__main__"], __main__.__file__)
    print(os.path.realpath(sys.path[0]), "torch" in sys.modules, "transformers" in sys.modules, "numpy" in sys.modules)
"""


def test_a_script_sees_what_it_sees_alone(script, run) -> None:
    """Arguments, name, path and what is imported already: nothing tells it that it is recorded."""
    name = script(SHOW, trains=False)
    arguments = ["--lr", "1e-5", "--", "-d", "x y"]
    alone = run(name, *arguments, module=None)
    recorded = run("record", "-d", "a", "--", "python", name, *arguments)
    assert alone.returncode == recorded.returncode == 0
    # numpy comes with the checks of the config; that of a script that trains nothing is no matter.
    assert recorded.stdout.replace("True\n", "False\n") == alone.stdout.replace("True\n", "False\n")
    assert "False False" in recorded.stdout
    assert recorded.stderr == "grpodyn: nothing recorded: no trainer of transformers has trained\n"


def test_a_module_runs_as_a_module(script, run, tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    script("print(sys.argv, __name__, __spec__.name, __package__, sys.path[0])", "package/go.py", trains=False)
    alone = run("-m", "package.go", "--x", module=None)
    recorded = run("record", "--", "-m", "package.go", "--x")
    assert recorded.stdout == alone.stdout
    assert "package.go" in alone.stdout


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("raise RuntimeError('boom')", 1),
        ("sys.exit(7)", 7),
        pytest.param("sys.exit('words')", 1, marks=pytest.mark.slow),
        pytest.param("sys.exit()", 0, marks=pytest.mark.slow),
        ("def f():\n    raise ValueError('inner') from KeyError('outer')\nf()", 1),
        pytest.param("x = (", 1, marks=pytest.mark.slow),
        ("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)", -signal.SIGINT),
        ("from grpodyn.errors import UsageError\nraise UsageError('the script uses grpodyn itself')", 1),
    ],
)
def test_how_a_script_ends_is_how_the_command_ends(script, run, body: str, code: int) -> None:
    name = script(body, trains=False)
    alone = run(name, module=None)
    recorded = run("record", "--", name)
    assert alone.returncode == recorded.returncode == code
    told = [line for line in recorded.stderr.splitlines(keepends=True) if not line.startswith("grpodyn: ")]
    # Alone, Python shows a script by the path that it was given, as here.
    assert "".join(told) == alone.stderr


def test_trainers_built_late_and_twice_are_recorded_until_the_script_raises(script, run, tmp_path: Path) -> None:
    name = script("""
        class Break(__import__("transformers").TrainerCallback):
            def on_step_begin(self, args, state, control, **kwargs):
                if state.global_step == 1:
                    raise RuntimeError("boom")

        def main():
            import os
            os.mkdir("elsewhere")
            os.chdir("elsewhere")
            train(3)
            train(2)
            train(5, [Break()])

        if __name__ == "__main__":
            main()
    """)
    ended = run("record", "-d", "runs/a", "--set", "record.preset=light", "--", name)
    assert ended.returncode == 1
    assert "grpodyn/" not in ended.stderr.partition("Traceback")[2].partition("train.py")[0]
    assert ended.stderr.rstrip().endswith("RuntimeError: boom")
    first, second, third = (open_run(tmp_path / "runs" / f) for f in ("a", "a-2", "a-3"))
    assert [r.status for r in (first, second, third)] == ["finished", "finished", "failed"]
    assert [r.last_step for r in (first, second, third)] == [3, 2, 1]
    assert first.manifest.recorder["preset"] == "light"
    assert first.manifest.environment["script"] == name
    assert ended.stderr.count("grpodyn: recorded into") == 3


@pytest.mark.slow
def test_a_script_with_a_recorder_of_its_own_is_recorded_once(script, run, tmp_path: Path) -> None:
    name = script("""
        from grpodyn import Recorder
        train(callbacks=[Recorder("mine")])
    """)
    ended = run("record", "-d", "a", "--", name)
    assert ended.returncode == 0
    assert open_run(tmp_path / "mine").status == "finished"
    assert not (tmp_path / "a").exists()
    assert "nothing recorded: the script's trainer has a recorder of its own" in ended.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["record", "--"], "nothing after --"),
        (["record", "--", "python"], "nothing after --"),
        (["record", "--", "-m"], "nothing after -m"),
        (["record", "--", "python", "-u", "train.py"], "python -u -m grpodyn record -- train.py"),
        (["record", "--", "torchrun", "train.py"], "accelerate launch -m grpodyn record -- train.py"),
        (["record", "config.yaml", "--plan", "--", "train.py"], "CONFIG, --plan, and a script after --"),
        (["record", "--set", "grpo.max_steps=3", "--", "train.py"], "--set grpo"),
        (["record", "--set", "record.presett=full", "--", "train.py"], "did you mean 'preset'"),
        (["record", "train.py"], "to run it: grpodyn record -- train.py"),
        (["record", "-d", "used", "--", "train.py"], "used is not empty"),
    ],
)
def test_mistakes_are_said_before_the_script_runs(monkeypatch, capsys, tmp_path: Path, words, told: str) -> None:
    from grpodyn.cli.app import main  # noqa: PLC0415

    (tmp_path / "train.py").write_text("raise SystemExit('it ran')")
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "notes.txt").write_text("mine")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["grpodyn", *words])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert told in capsys.readouterr().err.replace("\n", " ")


def test_help_before_a_script_is_ours(monkeypatch, capsys) -> None:
    from grpodyn.cli.app import main  # noqa: PLC0415

    monkeypatch.setattr(sys, "argv", ["grpodyn", "record", "--help", "--", "train.py"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 0
    assert "Usage" in capsys.readouterr().out


@pytest.mark.parametrize("python", ["python", "python3", "/usr/bin/python3.11", "python.exe"])
def test_a_leading_python_is_dropped(python: str) -> None:
    assert parse([python, "train.py", "python"]).arguments == ("python",)
    assert parse(["pythonic.py"]).target == "pythonic.py"
    with pytest.raises(UsageError):
        parse([python])


def test_an_import_is_noticed_once_and_nothing_is_left(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "noticed_module.py").write_text("VALUE = 3")
    monkeypatch.syspath_prepend(str(tmp_path))
    before, seen = list(sys.meta_path), []
    with after_import("noticed_module", lambda module: seen.append(module.VALUE)):
        assert seen == []
        import noticed_module  # noqa: PLC0415

        assert noticed_module.__spec__.loader.get_source("noticed_module") == "VALUE = 3"
    with after_import("noticed_module", lambda module: seen.append(module.VALUE + 1)):
        pass
    with after_import("never_imported", seen.append):
        pass
    assert seen == [3, 4]
    assert sys.meta_path == before
    monkeypatch.delitem(sys.modules, "noticed_module")


def test_what_is_told_at_the_end(tmp_path: Path) -> None:
    assert Attachment(tmp_path).outcome() == ["nothing recorded: no trainer of transformers has trained"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "launcher",
    [
        ["accelerate.commands.launch", "--cpu", "--num_processes", "1"],
        ["torch.distributed.run", "--standalone", "--nproc_per_node", "2"],
    ],
    ids=["accelerate", "torchrun"],
)
def test_under_a_launcher_one_rank_records(script, run, tmp_path: Path, launcher: list[str]) -> None:
    name = script("""
        trainer = train(2)
        with open(f"rank-{trainer.args.process_index}.txt", "w") as file:
            print(trainer.args.world_size, sys.argv, file=file)
    """)
    module, *options = launcher
    ended = run(*options, "-m", "grpodyn", "record", "-d", "a", "--", name, "--", "--lr", "1", module=module)
    assert ended.returncode == 0, ended.stderr
    ranks = 2 if "--nproc_per_node" in options else 1
    # A file for each rank: what two ranks print into one pipe may stand in the middle of each other's lines.
    told = {path.name: path.read_text() for path in tmp_path.glob("rank-*.txt")}
    assert told == {f"rank-{rank}.txt": f"{ranks} ['train.py', '--', '--lr', '1']\n" for rank in range(ranks)}
    assert ended.stderr.count("grpodyn: recorded into") == 1
    recorded = open_run(tmp_path / "a")
    assert recorded.status == "finished"
    assert recorded.manifest.world["ranks"] == ranks
    assert not (tmp_path / "a-2").exists()


@pytest.mark.slow
def test_a_resumed_script_goes_on_with_its_run(script, run, tmp_path: Path) -> None:
    name = script("""
        import shutil
        from transformers import TrainerCallback
        arguments = TrainingArguments("out", max_steps=int(sys.argv[1]), use_cpu=True, report_to=[], disable_tqdm=True,
                                      save_steps=2, log_level="error")
        config = Qwen2Config(vocab_size=16, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                             num_attention_heads=2, num_key_value_heads=1)
        torch.manual_seed(0)
        data = [{"input_ids": torch.arange(6), "labels": torch.arange(6)}] * 16
        Trainer(Qwen2ForCausalLM(config), arguments, train_dataset=data).train(resume_from_checkpoint=len(sys.argv) > 2)
    """)
    assert run("record", "-d", "a", "--", name, "2").returncode == 0
    assert run("record", "-d", "a", "--", name, "4", "again").returncode == 2, "a used directory"
    ended = run("record", "-d", "a", "--resume", "--", name, "4", "again")
    assert ended.returncode == 0, ended.stderr
    recorded = open_run(tmp_path / "a")
    assert recorded.tensors.step.values.tolist() == [1, 2, 3, 4]
    assert recorded.tensors.segment.values.tolist() == [0, 0, 1, 1]
