"""Rollouts in the trace are those of training: every generation batch, as scored, and none of evaluation."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import trl
from hypothesis import given
from hypothesis import strategies as st
from trl import GRPOTrainer

from grpodyn import Recorder, open_run
from grpodyn.config.record import RecordConfig
from grpodyn.recording.boundary import Boundary
from grpodyn.recording.rollouts import TESTED_TRL, RolloutHooks, advantages, prompt_id, total_reward


class Judge:
    """A reward function that remembers every call, apart for training and evaluation."""

    def __init__(self, name: str, unscored_every: int = 0) -> None:
        self.calls: list[dict] = []
        self.trainer = None

        def judge(prompts, completions, completion_ids, **_):
            values = [0.25 * sum(c in "abcd" for c in text) + 0.01 * len(text) for text in completions]
            values = [None if unscored_every and i % unscored_every == 1 else v for i, v in enumerate(values)]
            self.calls.append(
                {
                    "training": self.trainer.model.training,
                    "prompts": list(prompts),
                    "ids": [list(ids) for ids in completion_ids],
                    "values": values,
                }
            )
            return values

        judge.__name__ = name
        self.function = judge

    def of_training(self) -> list[dict]:
        return [call for call in self.calls if call["training"]]


@pytest.fixture
def recorded(tmp_path: Path, make_trainer, make_dataset, monkeypatch):
    """Train 12 steps with an evaluation in between, logging every 10; keep what TRL computed."""

    def run(**arguments):
        judges = [Judge("first"), Judge("second", unscored_every=3)]
        trl_advantages = []
        original = GRPOTrainer._generate_and_score_completions

        def generate(self, inputs):
            output = original(self, inputs)
            if self.model.training:
                trl_advantages.append(output["advantages"].tolist())
            return output

        monkeypatch.setattr(GRPOTrainer, "_generate_and_score_completions", generate)
        trainer = make_trainer(
            callbacks=[Recorder(tmp_path / "run", RecordConfig(preset="light"))],
            rewards=[judge.function for judge in judges],
            logging_steps=10,
            eval_strategy="steps",
            eval_steps=4,
            eval_dataset=make_dataset(8),
            max_steps=12,
            reward_weights=[1.0, 0.5],
            **arguments,
        )
        for judge in judges:
            judge.trainer = trainer
        trainer.train()
        return open_run(tmp_path / "run"), judges, trl_advantages, trainer

    return run


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({}, id="plain", marks=pytest.mark.slow),
        pytest.param(
            {"num_iterations": 2, "gradient_accumulation_steps": 2, "scale_rewards": "batch"}, id="two-iterations"
        ),
        pytest.param(
            {"scale_rewards": "none", "mask_truncated_completions": True},
            id="unscaled-masked",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_rollouts_are_what_was_scored(recorded, arguments):
    run, judges, trl_advantages, trainer = recorded(**arguments)
    rollouts = run.rollouts.load()
    calls = judges[0].of_training()
    assert len(judges[0].calls) > len(calls), "evaluation must have called the reward functions too"
    assert rollouts.sizes["row"] == len(calls)
    assert rollouts.reward_function.values.tolist() == ["first", "second"]
    every = trainer.args.steps_per_generation * trainer.num_iterations // trainer.args.gradient_accumulation_steps
    assert rollouts.step.values.tolist() == list(range(1, 13, every))
    for row, call in enumerate(calls):
        batch = rollouts.isel(row=row)
        for f, judge in enumerate(judges):
            returned = [np.nan if v is None else v for v in judge.of_training()[row]["values"]]
            assert np.allclose(batch["rewards"].values[..., f].ravel(), returned, rtol=1e-7, equal_nan=True)
        assert batch["prompt_id"].values.tolist() == [prompt_id(p) for p in call["prompts"][::4]]
        assert batch["length"].values.ravel().tolist() == [len(ids) for ids in call["ids"]]
        assert batch["terminated"].values.ravel().tolist() == [float(ids[-1] in (0, 1)) for ids in call["ids"]]
        assert batch["advantage"].values.ravel().tolist() == trl_advantages[row]
    assert run.manifest.rewards == [{"name": "first", "weight": 1.0}, {"name": "second", "weight": 0.5}]
    assert rollouts.attrs["source"] == run.manifest.recorder["rollouts"] == "trainer"
    assert trl.__version__ in TESTED_TRL


@pytest.mark.slow
def test_no_hook_remains(recorded):
    _, _, _, trainer = recorded()
    assert "_generate_and_score_completions" not in vars(trainer)
    assert "_calculate_rewards" not in vars(trainer)
    hooked = [name for name, module in trainer.model.named_modules() if module._forward_hooks or module._backward_hooks]
    assert hooked == []


def test_means_agree_with_the_trainers_own_scalars(recorded):
    run, _, _, _ = recorded(logging_nan_inf_filter=False)
    logged = run.metric("reward")
    assert logged.step.values.tolist() == [10]
    cut_off = 1 - run.rollouts["terminated"].values[:10].mean()
    assert cut_off == pytest.approx(float(run.metric("completions/clipped_ratio")[0]), rel=1e-5)
    rewards = run.rollouts["reward"].values[:10]
    assert np.nanmean(rewards, axis=(1, 2)).mean() == pytest.approx(float(logged[0]), rel=1e-5)


class TestRewardFunctionsAlone:
    """A trainer with another inner interface: only its reward functions can be wrapped."""

    @staticmethod
    def trainer(functions, **changes):
        settings = {
            "model": SimpleNamespace(training=True),
            "reward_funcs": list(functions),
            "num_generations": 2,
            "reward_weights": torch.tensor([1.0] * len(functions)),
            "scale_rewards": "group",
            "processing_class": SimpleNamespace(eos_token_id=1, pad_token_id=0),
        }
        return SimpleNamespace(**{**settings, **changes})

    @staticmethod
    def call(trainer):
        prompts, ids = ["p", "p", "q", "q"], [[5, 1], [5, 5, 5], [1], [5, 0]]
        for function in list(trainer.reward_funcs):
            if inspect.iscoroutinefunction(function) or not callable(function):
                continue
            function(prompts=prompts, completions=["a", "b", "c", "d"], completion_ids=ids)

    def test_rewards_and_advantages(self):
        taken = []

        def first(prompts, completions, completion_ids):
            return [1.0, 0.0, 0.5, None]

        trainer = self.trainer([first])
        hooks = RolloutHooks(trainer, Boundary(lambda *_: None), taken.append)
        assert hooks.source == "reward_functions"
        self.call(trainer)
        (batch,) = taken
        assert np.array_equal(batch.grouped(batch.reward), [[1.0, 0.0], [0.5, np.nan]], equal_nan=True)
        # (1 − 0.5) / (0.7071 + 1e-4); a group with one scored completion has no spread.
        assert batch.advantage == pytest.approx([0.707007, -0.707007, 0.0, 0.0], rel=1e-5)
        assert batch.length.tolist() == [2, 3, 1, 2]
        assert batch.terminated.tolist() == [1, 0, 1, 1]
        hooks.remove()
        assert trainer.reward_funcs == [first]
        trainer.model.training = False

    def test_evaluation_is_left_out(self):
        taken = []
        trainer = self.trainer([lambda prompts, completions, completion_ids: [0.0] * 4])
        RolloutHooks(trainer, Boundary(lambda *_: None), taken.append)
        trainer.model.training = False
        self.call(trainer)
        assert taken == []

    def test_what_cannot_be_wrapped_is_named_and_its_rewards_are_missing(self):
        async def judged_elsewhere(prompts, completions, **_):
            return [1.0] * 4

        def local(prompts, completions, completion_ids):
            return [1.0, 0.0, 1.0, 0.0]

        taken = []
        trainer = self.trainer([local, judged_elsewhere])
        hooks = RolloutHooks(trainer, Boundary(lambda *_: None), taken.append)
        assert hooks.unwrapped == ["judged_elsewhere"]
        self.call(trainer)
        assert np.isnan(taken[0].rewards[:, 1]).all()
        assert np.isnan(taken[0].advantage).all()

    def test_a_trainer_without_rollouts(self):
        assert RolloutHooks(SimpleNamespace(), Boundary(lambda *_: None), lambda _: None).source is None
        assert RolloutHooks(None, Boundary(lambda *_: None), lambda _: None).source is None


def test_a_wrapper_put_around_ours_survives_and_ours_goes_quiet(make_trainer):
    trainer = make_trainer()
    taken = []
    hooks = RolloutHooks(trainer, Boundary(lambda *_: None), taken.append)
    ours = trainer._calculate_rewards
    trainer._calculate_rewards = theirs = lambda *args: ours(*args)  # noqa: PLW0108  # a wrapper, not an alias
    hooks.remove()
    assert trainer._calculate_rewards is theirs
    assert "_generate_and_score_completions" not in vars(trainer)
    hooks._receive(None)
    assert taken == []


def test_total_reward_leaves_out_what_was_not_scored():
    rewards = np.array([[1.0, 2.0], [np.nan, 2.0], [np.nan, np.nan]])
    assert np.array_equal(total_reward(rewards, np.array([1.0, 0.5])), [2.0, 1.0, np.nan], equal_nan=True)


@given(st.lists(st.floats(-10, 10), min_size=4, max_size=4), st.floats(0.5, 4), st.floats(-5, 5))
def test_advantages_sum_to_zero_in_a_group_and_ignore_a_shift(rewards, factor, shift):
    reward = np.round(np.array(rewards), 3)
    found = advantages(reward, 4, "group")
    assert abs(found.sum()) < 1e-6
    assert advantages(reward + shift, 4, "group") == pytest.approx(found, abs=1e-6)
    unscaled = advantages(reward, 4, "none")
    assert advantages(factor * reward, 4, "none") == pytest.approx(factor * unscaled, abs=1e-9)


def test_prompt_ids_tell_prompts_apart_and_fit_63_bits():
    messages = [{"role": "user", "content": "é"}]
    ids = [prompt_id(p) for p in ("a", "b", messages, [{"content": "é", "role": "user"}])]
    assert ids[2] == ids[3]
    assert len(set(ids)) == 3
    assert all(0 <= number < 2**63 for number in ids)
    # Fixed for all time: sha256("a"), first 8 bytes, without the lowest bit.
    assert ids[0] == 0xCA978112CA1BBDCA >> 1
