"""Whole runs in stages, of a few steps on the embedded model."""

from __future__ import annotations

import io
import signal
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import load_file

from grpodyn import embedded
from grpodyn.config import run
from grpodyn.config.run import RunConfig
from grpodyn.errors import ConfigError, UsageError
from grpodyn.trace.manifest import Manifest
from grpodyn.trace.overview import overview
from grpodyn.trace.reader import open_run
from grpodyn.trace.stages import past, stage_course
from grpodyn.training.checkpoints import FOLDER
from grpodyn.training.display import LineDisplay, Moment
from grpodyn.training.session import train
from grpodyn.training.sft import sft_examples

TASK = {"name": "arithmetic_format"}
EASY = {
    "stages": [{"name": "first", "task": "arithmetic_format"}, {"name": "second", "task": "arithmetic_format"}],
    "level": 0.0001,
    "in_a_row": 3,
    "every": 1,
    "items": 10,
    "temperature": 1.0,
    "most_steps": 4,
    "least_reward": 0.0,
    "most_alike": 1.0,
}


class Screen(LineDisplay):
    """Keeps what was shown; can press Ctrl-C when a step is shown."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.out, self.stop_at = io.StringIO(), stop_at
        super().__init__(Console(file=self.out, width=200))

    def show(self, moment: Moment) -> None:
        super().show(moment)
        if moment.step == self.stop_at:
            signal.raise_signal(signal.SIGINT)


def config(**sections: object) -> RunConfig:
    raw = {
        "model": "embedded",
        "task": TASK,
        "grpo": {
            "learning_rate": 3e-5,
            "lr_scheduler_type": "constant",
            "per_device_train_batch_size": 8,
            "num_generations": 4,
            "max_completion_length": 6,
            "gradient_checkpointing": False,
        },
        "evaluate": {"prompts": 10, "texts": ["other_formats"], "text_windows": 5},
        "record": {"every": {"spectral_shift": 0, "effective_rank": 0}},
    }
    return run.from_dict(raw | sections, "here")


SFT = {"trainer": {"max_steps": 2, "learning_rate": 1e-4, "per_device_train_batch_size": 8}}


def with_kl() -> RunConfig:
    plain = config(sft=SFT, curriculum=EASY)
    return plain.model_copy(update={"grpo": {**plain.grpo, "beta": 0.01}})


@pytest.fixture(scope="module")
def staged(tmp_path_factory) -> Path:
    """Supervised fine-tuning of two steps and two stages of three, stopped at the end of the first and in the next."""
    directory = tmp_path_factory.mktemp("staged") / "run"
    wanted = with_kl()
    train(wanted, directory, Screen(stop_at=2))
    assert Manifest.read(directory).status == "stopped_early"
    train(wanted, directory, Screen(stop_at=3), resume=True)
    assert Manifest.read(directory).status == "stopped_early"
    train(wanted, directory, Screen(), resume=True)
    return directory


def test_stages_follow_each_other_and_are_taken_up_where_they_were_left(staged):
    opened = open_run(staged)
    stages = past(opened.manifest.segments)
    assert opened.status == "finished"
    assert [(one.name, one.start, one.end, one.outcome) for one in stages] == [
        ("sft", 0, 2, "done"),
        ("first", 2, 5, "mastered"),
        ("second", 5, 8, "mastered"),
    ]
    assert [segment["stage"] for segment in opened.manifest.segments] == ["sft", "first", "first", "second"]
    assert opened.steps("tensors") == list(range(1, 9))
    assert opened.steps("rollouts")[0] == 3


def test_every_stage_is_tested_again_after_each(staged):
    course = stage_course(open_run(staged))
    assert course is not None
    assert course.before is not None
    for at in (course.before, *course.after):
        assert at is not None
        assert set(at.retested) == {"first", "second"}
        assert set(at.perplexity) == {"other_formats"}
    assert [at.step for at in course.after if at is not None] == [2, 5, 8]


def test_displacement_goes_on_from_the_model_before_the_first_stage(staged):
    opened = open_run(staged)
    start = load_file(embedded.MODEL_DIR / "model.safetensors")
    end = load_file(staged / "model" / "model.safetensors")
    name = "model.layers.0.mlp.up_proj.weight"
    moved = opened.tensors["delta_norm"].sel(tensor=name).dropna("row")
    wanted = float(np.linalg.norm(end[name].astype(np.float64) - start[name]))
    assert float(moved.values[-1]) == pytest.approx(wanted, rel=1e-5)
    # Both ends of each stage: what it added is the difference of weights, not of norms.
    assert set(moved["step"].values.tolist()) >= {1, 2, 5, 8}
    assert set(opened.spectra["spectral_shift"].dropna("row", how="all")["step"].values.tolist()) >= {2, 5, 8}


def test_what_each_stage_moved_by_itself_is_noted_when_it_ends(staged):
    opened = open_run(staged)
    first, second = opened.manifest.segments[2:]
    assert (first["stage"], second["stage"]) == ("first", "second")
    start, end = (load_file(staged / place / "model.safetensors") for place in ("stages/sft", f"{FOLDER}/checkpoint-5"))
    names = [name for name in start if name.startswith("model.layers.0.")]
    wanted = np.sqrt(sum(np.square(end[name].astype(np.float64) - start[name]).sum() for name in names))
    assert first["moved"]["model.layers.0"] == pytest.approx(wanted, rel=1e-5)
    assert set(second["moved"]) == {f"model.layers.{layer}" for layer in range(6)}
    assert [path.name for path in (staged / "stages").iterdir()] == ["sft"], "the starts of stages are kept no longer"


def test_that_fine_tuning_samples_nothing_is_no_problem(staged):
    assert not [problem for problem in overview(open_run(staged)).problems if "rollouts" in problem]


def test_the_run_is_of_the_model_that_it_began_with(staged):
    assert Path(open_run(staged).manifest.model["name"]) == embedded.MODEL_DIR


def test_the_kl_term_is_measured_from_the_tuned_model(staged):
    metrics = open_run(staged).metrics
    kl = metrics["values"].sel(metric="kl").dropna("row")
    # Fine-tuning moved the model by far more than that; before the first update of GRPO nothing else has.
    assert kl["step"].values[0] == 3
    assert float(kl.values[0]) == pytest.approx(0, abs=1e-6)


def test_the_tuned_model_is_kept_without_what_only_its_trainer_needs(staged):
    kept = sorted(path.name for path in (staged / "stages" / "sft").iterdir())
    assert "model.safetensors" in kept
    assert not [name for name in kept if name.startswith(("optimizer", "scheduler", "trainer_state", "rng_state"))]


def test_a_run_that_is_done_is_not_gone_on_with(staged):
    with pytest.raises(UsageError, match="nothing left"):
        train(with_kl(), staged, Screen(), resume=True)


def test_a_stage_that_cannot_be_learned_from_ends_the_run_before_its_first_step(tmp_path):
    screen = Screen()
    train(config(curriculum=EASY | {"least_reward": 0.9, "level": 1.0}), tmp_path / "run", screen)
    opened = open_run(tmp_path / "run")
    assert [(one.name, one.outcome) for one in past(opened.manifest.segments)] == [("first", "not_viable")]
    assert opened.status == "stopped_early"
    assert opened.last_step <= 0
    assert "less than 0.9" in screen.out.getvalue()
    assert not list((tmp_path / "run" / FOLDER).glob("checkpoint-*"))


def test_what_sft_learns():
    rows = sft_examples(config(sft={}).task)
    assert rows.column_names == ["prompt", "completion"]
    assert rows[0]["completion"].endswith(".0")
    talk = config(sft={"task": {"name": "two_digit", "chat": True}}).sft
    assert talk is not None
    assert talk.task is not None
    row = sft_examples(talk.task)[0]
    assert [message["role"] for message in [*row["prompt"], *row["completion"]]] == ["user", "assistant"]


def test_prompts_that_are_put_in_two_ways_are_refused_with_both_shown(tmp_path):
    other = {"task": {"name": "arithmetic_format", "template": "The answer to {prompt} is:"}}
    with pytest.raises(
        ConfigError, match=r"(?s)task:\n    …the prompt…\nsft.task:\n    The answer to …the prompt… is:"
    ):
        train(config(sft=SFT | other), tmp_path / "run", Screen())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("trainer", "why"),
    [
        ({"max_step": 3}, "max_steps"),
        ({"logging_steps": 5}, "write `grpo.logging_steps`"),
        ({"learning_rate": -1.0}, "at least 0"),
    ],
)
def test_keys_of_the_sft_trainer_are_checked_before_anything_is_loaded(tmp_path, trainer, why):
    with pytest.raises(ConfigError, match=why):
        train(config(sft={"trainer": trainer}), tmp_path / "run", Screen())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("before", [{}, {"sft": SFT}])
@pytest.mark.parametrize(
    ("second", "why"),
    [
        (
            {"dataset": "second.jsonl", "splits": "hash"},
            "stage second, .*name another in task.answer",
        ),
        ({"name": "arithmetic_format", "max_prompt_tokens": 2}, "stage second, .*have more than 2 tokens"),
    ],
)
def test_what_is_wrong_with_a_later_stage_is_said_before_the_first(tmp_path, monkeypatch, before, second, why):
    (tmp_path / "second.jsonl").write_text("".join(f'{{"prompt": "{n}+1="}}\n' for n in range(40)))
    monkeypatch.chdir(tmp_path)
    stages = [EASY["stages"][0], {"name": "second", "task": second}]
    with pytest.raises(ConfigError, match=why):
        train(config(curriculum=EASY | {"stages": stages}, **before), tmp_path / "run", Screen())
    assert not (tmp_path / "run").exists()
