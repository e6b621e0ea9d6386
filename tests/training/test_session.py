"""Whole runs of a few steps on the embedded model, in this process."""

from __future__ import annotations

import io
import signal
from pathlib import Path

import numpy as np
import pytest
from peft import PeftModel
from rich.console import Console
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM

from grpodyn import embedded
from grpodyn.config import run
from grpodyn.config.resume import recorded_config
from grpodyn.errors import ConfigError, UsageError
from grpodyn.trace.reader import open_run
from grpodyn.training.checkpoints import FOLDER, last_whole
from grpodyn.training.display import LineDisplay, Moment
from grpodyn.training.session import Trained, train
from grpodyn.training.summary import lines, summarize

SMALL = (
    "grpo.per_device_train_batch_size=16",
    "grpo.num_generations=4",
    "grpo.max_steps=6",
    "evaluate.prompts=20",
    "record.every.effective_rank=2",
)


class Screen(LineDisplay):
    """Keeps what was shown; can press Ctrl-C when a step is shown, or raise."""

    def __init__(self, stop_at: int | None = None, error_at: int | None = None) -> None:
        self.out = io.StringIO()
        self.stop_at, self.error_at = stop_at, error_at
        super().__init__(Console(file=self.out, width=200))

    def show(self, moment: Moment) -> None:
        super().show(moment)
        if moment.step == self.stop_at:
            signal.raise_signal(signal.SIGINT)
        if moment.step == self.error_at:
            raise RuntimeError("out of memory")

    @property
    def text(self) -> str:
        return self.out.getvalue()


def weights(run_dir: Path) -> dict[str, np.ndarray]:
    return load_file(run_dir / "model" / "model.safetensors")


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Path, Screen]:
    """A run that was left alone."""
    screen = Screen()
    path = tmp_path_factory.mktemp("finished") / "run"
    assert train(run.embedded(SMALL), path, screen) == Trained(path, None)
    return path, screen


def test_a_run_leaves_a_whole_record(finished) -> None:
    path, _ = finished
    recorded = open_run(path)
    assert recorded.status == "finished"
    assert recorded.problems == []
    assert recorded.tensors["step"].values.tolist() == [1, 2, 3, 4, 5, 6]
    assert recorded.rollouts["reward"].shape == (6, 4, 4)
    assert recorded.evaluations["step"].values.tolist() == [0, 6]
    assert recorded_config(path) == run.embedded(SMALL)
    dataset = recorded.manifest.dataset
    assert (dataset["name"], dataset["split"], dataset["rows"]) == ("arithmetic_format", "train", 11348)
    assert dataset["fingerprint"]
    assert recorded.manifest.rewards == [{"name": "exact_match", "weight": 1.0}]
    assert last_whole(path / FOLDER) == (6, path / FOLDER / "checkpoint-6")


def test_the_trained_model_is_beside_it_and_differs_from_the_base(finished) -> None:
    path, _ = finished
    AutoModelForCausalLM.from_pretrained(path / "model")
    base = load_file(embedded.MODEL_DIR / "model.safetensors")
    trained = weights(path)
    assert base.keys() == trained.keys()
    assert all((base[name] != trained[name]).any() for name in base)


def test_progress_and_summary_say_what_happened(finished) -> None:
    path, screen = finished
    shown = screen.text
    assert "step 0: held-out accuracy" in shown
    assert "preset standard" in shown  # the recorder's own line
    assert "step 6/6 · reward" in shown
    summary = summarize(path)
    assert (summary.before.step, summary.after.step) == (0, 6)
    assert summary.before.best_temperature_accuracy >= max(summary.before.accuracy, summary.before.greedy) - 1e-9
    text = "\n".join(lines(summary))
    assert f"grpodyn recommend-lora {path}" in text
    assert f"{summary.after.accuracy:.3f}" in text
    assert "--resume" not in text


def test_nothing_is_left_to_train(finished) -> None:
    path, _ = finished
    with pytest.raises(UsageError, match="has all of its 6 steps"):
        train(run.embedded(SMALL), path, Screen(), resume=True)
    assert open_run(path).status == "finished"


def test_a_finished_run_can_be_made_longer_and_its_manifest_says_so(tmp_path) -> None:
    path = tmp_path / "run"
    train(run.embedded([*SMALL, "grpo.max_steps=2"]), path, Screen())
    longer = run.embedded([*SMALL, "grpo.max_steps=4"])
    train(longer, path, Screen(), resume=True)
    recorded = open_run(path)
    assert (recorded.status, recorded.last_step) == ("finished", 4)
    assert recorded.tensors["step"].values.tolist() == [1, 2, 3, 4]
    assert recorded_config(path) == longer


def test_ctrl_c_ends_cleanly_and_the_resumed_run_ends_as_if_never_stopped(finished, tmp_path) -> None:
    path = tmp_path / "run"
    handler = signal.getsignal(signal.SIGINT)
    train(run.embedded(SMALL), path, Screen(stop_at=2))
    assert signal.getsignal(signal.SIGINT) is handler

    stopped = open_run(path)
    assert (stopped.status, stopped.last_step) == ("stopped_early", 3)
    assert stopped.tensors["step"].values.tolist() == [1, 2, 3]
    assert last_whole(path / FOLDER) == (3, path / FOLDER / "checkpoint-3")
    assert any(f"grpodyn record --resume --run-dir {path}" in line for line in lines(summarize(path)))

    screen = Screen()
    train(run.embedded(SMALL), path, screen, resume=True)
    assert "going on from the checkpoint of step 3" in screen.text
    resumed = open_run(path)
    assert resumed.status == "finished"
    assert resumed.tensors["step"].values.tolist() == [1, 2, 3, 4, 5, 6]
    assert resumed.tensors["segment"].values.tolist() == [0, 0, 0, 1, 1, 1]
    assert resumed.evaluations["step"].values.tolist() == [0, 6]

    whole, _ = finished
    for name, value in weights(whole).items():
        np.testing.assert_array_equal(weights(path)[name], value, err_msg=name)
    for probe in ("update_norm", "delta_norm"):
        one, two = (open_run(p).tensors[probe].values for p in (whole, path))
        measured = ~np.isnan(one) & ~np.isnan(two)
        assert measured.any()
        np.testing.assert_array_equal(one[measured], two[measured])


def test_without_a_checkpoint_a_resumed_run_starts_over_as_a_new_segment(tmp_path) -> None:
    path = tmp_path / "run"
    config = run.embedded([*SMALL, "grpo.max_steps=3", "grpo.save_strategy='no'"])
    train(config, path, Screen(stop_at=1))
    assert last_whole(path / FOLDER) is None
    screen = Screen()
    assert train(config, path, screen, resume=True) == Trained(path, None)
    assert "no checkpoint yet: starting over from step 0" in screen.text
    recorded = open_run(path)
    assert recorded.status == "finished"
    assert recorded.tensors["step"].values.tolist() == [1, 2, 3]
    assert set(recorded.tensors["segment"].values.tolist()) == {1}
    assert len(recorded.manifest.segments) == 2
    # The base was measured once; starting over does not measure it again.
    assert recorded.evaluations["step"].values.tolist() == [0, 3]


def test_a_second_ctrl_c_stops_at_once_with_what_was_recorded(tmp_path) -> None:
    class Impatient(Screen):
        def show(self, moment: Moment) -> None:
            super().show(moment)
            if moment.step == 2:
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)

    path = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(run.embedded(SMALL), path, Impatient())
    recorded = open_run(path)
    assert (recorded.status, recorded.last_step) == ("stopped_early", 2)


def test_an_error_in_training_comes_through_and_the_run_is_called_failed(tmp_path) -> None:
    path = tmp_path / "run"
    with pytest.raises(RuntimeError, match="out of memory"):
        train(run.embedded(SMALL), path, Screen(error_at=2))
    recorded = open_run(path)
    assert recorded.status == "failed"
    assert recorded.tensors["step"].values.tolist() == [1, 2]


def test_an_adapter_is_trained_recorded_and_saved(tmp_path) -> None:
    path = tmp_path / "run"
    lora = "lora={r: 2, lora_alpha: 4, target_modules: [q_proj, down_proj]}"
    train(run.embedded([*SMALL, "grpo.max_steps=2", lora]), path, Screen())
    recorded = open_run(path)
    assert set(recorded.tensors["source"].values) == {"lora", "factor"}
    assert recorded.manifest.lora["r"] == 2
    base = AutoModelForCausalLM.from_pretrained(embedded.MODEL_DIR)
    PeftModel.from_pretrained(base, path / "model")


def test_turned_off_the_recorder_leaves_training_and_its_model_alone(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("GRPODYN_DISABLE", "1")
    trained = train(run.embedded([*SMALL, "grpo.max_steps=2"]), tmp_path / "run", Screen())
    assert trained == Trained(tmp_path / "run", "GRPODYN_DISABLE is set")
    assert weights(tmp_path / "run")
    assert not (tmp_path / "run" / "run.json").exists()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["grpo.lerning_rate=1"], "did you mean 'learning_rate'"),
        (["lora={r: 4, target_modules: [nope_proj]}"], "nope_proj"),
        (["model.path=./absent"], "is no folder"),
        (["task.name=null", "task.dataset=absent.jsonl"], "no such file"),
        (["rewards=[absent_module:f]"], "cannot be imported"),
        (["grpo.num_generations=7"], "num_generations is 7"),
    ],
)
def test_a_config_that_cannot_run_leaves_nothing_behind(tmp_path, settings, words) -> None:
    with pytest.raises(ConfigError, match=words):
        train(run.embedded(settings), tmp_path / "run", Screen())
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_named_as_it_was_given(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    trained = train(run.embedded([*SMALL, "grpo.max_steps=1", "evaluate=null"]), Path("runs/a"), Screen())
    assert trained == Trained(Path("runs/a"), None)
    assert open_run(tmp_path / "runs/a").last_step == 1
