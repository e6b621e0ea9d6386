from __future__ import annotations

import pytest

from grpodyn.config import run
from grpodyn.errors import ConfigError, UsageError
from grpodyn.trace.stages import Past
from grpodyn.training.legs import legs, remaining

BOTH = {"model": "embedded", "sft": {}, "curriculum": {}, "grpo": {"lr_scheduler_type": "constant"}}


def test_stages_of_a_run_in_their_order():
    planned = legs(run.from_dict(BOTH, "here"))
    assert [leg.name for leg in planned] == [
        "sft", "addition_easy", "single_digit", "two_digit", "multiplication", "percentage",
    ]  # fmt: skip
    assert [leg.number for leg in planned] == [1, 2, 3, 4, 5, 6]
    assert [leg.kind for leg in legs(run.embedded(["sft={}"]))] == ["sft", "grpo"]
    assert legs(run.embedded()) == []


def test_what_is_left_begins_where_the_last_stage_ended():
    planned = legs(run.from_dict(BOTH, "here"))
    known = [Past("sft", 0, 30, "done"), Past("addition_easy", 30, 180, "mastered"), Past("single_digit", 180)]
    left = remaining(planned, known, "stop")
    assert (left[0].name, left[0].start, left[0].after_sft) == ("single_digit", 180, 30)
    assert len(left) == 4
    stalled = [*known[:2], Past("single_digit", 180, 400, "stalled")]
    assert remaining(planned, stalled, "continue")[0].start == 400
    with pytest.raises(UsageError, match="stage single_digit, which is stalled"):
        remaining(planned, stalled, "stop")
    with pytest.raises(UsageError, match="nothing left"):
        remaining(planned, [Past(leg.name, 0, 1, "mastered") for leg in planned], "stop")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"grpo": {}}, "how long a curriculum takes is not known"),
        ({"grpo": {"lr_scheduler_type": "constant", "max_steps": 5}}, "set curriculum.most_steps"),
        ({"evaluate": None}, "a curriculum tests its stages again"),
        ({"curriculum": {"stages": ["two_digit", "two_digit"]}}, "two_digit occurs twice"),
        ({"curriculum": {"on_stal": "stop"}}, "did you mean"),
        ({"grpo": {"lr_scheduler_type": "constant", "save_strategy": "no"}}, "from the checkpoint of the one before"),
        ({"sft": {"trainer": {"seed": 3}}}, "write the top-level `seed`"),
        ({"lora": {"r": 4}, "grpo": {"lr_scheduler_type": "constant", "beta": 0.1}}, "set beta to 0"),
    ],
)
def test_what_cannot_be_trained_in_stages_is_refused_at_once(changed, why):
    with pytest.raises(ConfigError, match=why):
        run.from_dict(BOTH | changed, "here")
