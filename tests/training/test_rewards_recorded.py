"""Several weighted rewards in one training: each part is recorded under its name, and their sum is what counts."""

from __future__ import annotations

import numpy as np
import pytest

from grpodyn import open_run
from grpodyn.config.run import from_dict
from grpodyn.training.build import build_trainer

WEIGHTS = {"exact_match": 2.0, "ended": 0.5, "soft_overlong": 1.0, "awaited": 0.25}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rewards")
    (folder / "awaited_rewards.py").write_text(
        "async def later(completions, *, bonus, **_):\n    return [bonus * len(text) for text in completions]\n"
    )
    config = from_dict(
        {
            "model": "embedded",
            "task": {"name": "arithmetic_format", "limit": 64},
            "rewards": [
                {"name": "exact_match", "weight": 2.0},
                {"name": "stop", "weight": 0.5, "label": "ended"},
                {"name": "soft_overlong", "options": {"cache": 4}},
                {"name": "awaited_rewards:later", "label": "awaited", "weight": 0.25, "options": {"bonus": 0.1}},
            ],
            "evaluate": None,
            "record": {"preset": "light"},
            "grpo": {
                "per_device_train_batch_size": 16, "num_generations": 8, "max_completion_length": 6, "max_steps": 2,
            },
        },
        "test",
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        training = build_trainer(config, folder / "run")
        training.trainer.train()
        training.recorder.close("finished")
    return open_run(folder / "run")


def test_each_part_is_recorded_under_its_name_and_the_sum_is_weighted(run) -> None:
    parts = run.rollouts["rewards"]
    assert list(parts["reward_function"].values) == list(WEIGHTS)
    total = (parts.values * np.array(list(WEIGHTS.values()))).sum(-1)
    np.testing.assert_allclose(total, run.rollouts["reward"].values, atol=1e-6)
    assert {f"rewards/{name}/mean" for name in WEIGHTS} <= set(run.metrics["values"]["metric"].values)


def test_the_run_fills_what_rewards_need_of_it(run) -> None:
    parts, lengths = run.rollouts["rewards"], run.rollouts["length"].values
    ended = parts.sel(reward_function="ended").values
    np.testing.assert_array_equal(ended, run.rollouts["terminated"].values)
    penalty = parts.sel(reward_function="soft_overlong").values
    np.testing.assert_allclose(penalty, np.clip((6 - lengths) / 4 - 1, -1, 0), atol=1e-6)
