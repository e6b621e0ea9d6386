"""The studies that come with the project are what they say they are."""

from pathlib import Path

import pytest

from grpodyn.ablation.protocol import load_study
from grpodyn.ablation.schedule import total
from grpodyn.training.arguments import grpo_arguments

STUDIES = Path(__file__).parents[2] / "configs" / "studies"


PLACEMENT = STUDIES / "placement-1p5b" / "study.yaml"


@pytest.mark.parametrize("path", [*sorted(STUDIES.glob("lora_advice*.yaml")), PLACEMENT], ids=lambda path: path.stem)
def test_a_study_can_be_read(path):
    study, configs = load_study(path)
    assert len(configs) == len(study.tasks)
    for config in configs.values():
        assert config.grpo["max_steps"] > 0


def test_the_claim_about_advice_rests_on_ten_paired_seeds_a_task():
    study, configs = load_study(STUDIES / "lora_advice.yaml")
    assert len(configs) == 3
    assert {len(study.seeds_of(arm)) for arm in study.primary_arms} == {10}
    assert study.max_fraction == 0.25
    assert [(c.a, c.b, c.test) for c in study.primary] == [
        ("advised", "all-linear", "not_worse"),
        ("advised", "all-linear-same-budget", "better"),
        ("advised", "random-same-budget", "better"),
    ]
    assert study.source.seed not in study.all_seeds
    # 15 arms tuned on 6 trainings each, 4 of them tested on 10 seeds and 11 on 3.
    assert total(study, study.arms) == 15 * 6 + 4 * 10 + 11 * 3


def test_the_study_at_full_size_is_taken_by_trl_and_asks_what_the_small_one_asks():
    small, _ = load_study(STUDIES / "lora_advice.yaml")
    study, configs = load_study(PLACEMENT)
    assert study.primary == small.primary
    assert (study.seeds, study.tuning, study.max_fraction) == (small.seeds, small.tuning, small.max_fraction)
    for config in configs.values():
        arguments = grpo_arguments(config, PLACEMENT.parent)
        assert arguments.use_vllm
        assert arguments.vllm_max_model_length >= config.task.max_prompt_tokens + arguments.max_completion_length
        assert config.lora is None, "the source run of advice on rung 2 trains all weights"
        assert len(config.rewards) == 1, "what is rewarded is what is measured"
