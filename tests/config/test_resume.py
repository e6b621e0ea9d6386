from __future__ import annotations

from pathlib import Path

import pytest

from grpodyn.config import run
from grpodyn.config.resume import check_resumable, check_same, is_longer
from grpodyn.errors import ConfigError


@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["grpo.save_steps=5"],
        ["evaluate.every=10"],
        ["evaluate=null"],
        ["grpo.hub_token=hf_x"],  # never written down, so never known
        ["grpo.max_steps=500"],  # the embedded schedule is constant
    ],
)
def test_what_training_does_not_depend_on_may_change(settings: list[str]) -> None:
    check_resumable(run.embedded(), run.embedded(settings))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["seed=1"], ["`seed` was 0, now 1"]),
        (["grpo.learning_rate=1e-5"], ["`grpo.learning_rate` was", "now 1e-05"]),
        (["lora.r=8"], ["`lora.r` was None, now 8"]),
        (["grpo.num_generations=16"], ["`grpo.num_generations` was 8, now 16"]),
        (["record.preset=full"], ["`record.preset` was 'standard', now 'full'"]),
        (["rewards.0.weight=2.0"], ["`rewards`"]),
        (["grpo.weight_decay=0.1"], ["`grpo.weight_decay` was None, now 0.1"]),
    ],
)
def test_what_training_depends_on_may_not(settings: list[str], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        check_resumable(run.embedded(), run.embedded(settings))
    for word in words:
        assert word in str(caught.value)


def test_a_run_whose_rate_decays_to_its_end_cannot_be_extended() -> None:
    with pytest.raises(ConfigError, match="only a constant one can be extended"):
        check_resumable(
            run.embedded(["grpo.lr_scheduler_type=linear"]),
            run.embedded(["grpo.lr_scheduler_type=linear", "grpo.max_steps=500"]),
        )


STEPS = ["grpo.max_steps=20"]
EPOCHS = ["grpo.max_steps=-1", "grpo.num_train_epochs=1"]
DECAYS = ["grpo.lr_scheduler_type=linear"]


@pytest.mark.parametrize(
    ("recorded", "wanted", "words"),
    [
        (STEPS, ["grpo.max_steps=10"], "`grpo.max_steps` was 20, now 10"),
        (STEPS, [*STEPS, "evaluate.split=choose"], "`evaluate.split` was 'report', now 'choose'"),
        (STEPS, ["grpo.max_steps=40", "evaluate.prompts=7"], "`evaluate.prompts` was 1000, now 7"),
        (STEPS, [*STEPS, "record.preset=full"], "`record.preset`"),
        # What is longer, steps or epochs, depends on the number of prompts.
        (STEPS, ["grpo.max_steps=-1", "grpo.num_train_epochs=9"], "`grpo.max_steps` was 20, now -1"),
        ([*EPOCHS, "grpo.num_train_epochs=3"], EPOCHS, "`grpo.num_train_epochs` was 3, now 1"),
        ([*STEPS, *DECAYS], [*DECAYS, "grpo.max_steps=40"], "only a constant one can be extended"),
    ],
)
def test_a_run_whose_numbers_stand_beside_others_is_the_same_as_a_whole(
    monkeypatch: pytest.MonkeyPatch, recorded: list[str], wanted: list[str], words: str
) -> None:
    monkeypatch.setattr("grpodyn.config.resume.recorded_config", lambda run_dir: run.embedded(recorded))
    check_same(Path("run"), run.embedded(recorded), whole=True, longer=True)
    with pytest.raises(ConfigError) as caught:
        check_same(Path("run"), run.embedded(wanted), whole=True, longer=True)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("recorded", "wanted"),
    [
        (STEPS, ["grpo.max_steps=40"]),
        (EPOCHS, [*EPOCHS, "grpo.num_train_epochs=3"]),
        # Without a number, the trainer does three epochs.
        (EPOCHS, ["grpo.max_steps=-1"]),
    ],
)
def test_a_shorter_run_can_be_trained_on_but_does_not_stand_for_the_longer(
    monkeypatch: pytest.MonkeyPatch, recorded: list[str], wanted: list[str]
) -> None:
    before, after = run.embedded(recorded), run.embedded(wanted)
    monkeypatch.setattr("grpodyn.config.resume.recorded_config", lambda run_dir: before)
    assert is_longer(before, after)
    assert not is_longer(after, before)
    assert not is_longer(before, before)
    check_same(Path("run"), after, whole=True, longer=True)
    with pytest.raises(ConfigError, match="was trained under other settings"):
        check_same(Path("run"), after)


def test_a_finished_run_stands_for_its_own_config_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = run.embedded(["seed=1001", "grpo.max_steps=20"])
    monkeypatch.setattr("grpodyn.config.resume.recorded_config", lambda run_dir: recorded)
    check_same(Path("source"), recorded)
    check_same(Path("source"), run.embedded(["seed=1001", "grpo.max_steps=20", "record.preset=full", "evaluate=null"]))
    # Unlike a run that goes on, one that is finished has its length.
    with pytest.raises(ConfigError, match=r"source was trained under other settings: `grpo.max_steps` was 20, now 40"):
        check_same(Path("source"), run.embedded(["seed=1001", "grpo.max_steps=40"]))
    with pytest.raises(ConfigError, match="`seed` was 1001, now 1002"):
        check_same(Path("source"), run.embedded(["seed=1002", "grpo.max_steps=20"]))
