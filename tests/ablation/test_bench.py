import math

import pytest
import torch

from grpodyn.ablation.bench import Bench, setup_of
from grpodyn.ablation.protocol import Measure
from grpodyn.ablation.records import Job
from grpodyn.ablation.workers import run_job
from grpodyn.config import run as run_config
from grpodyn.errors import ConfigError

QUICK = [
    "grpo.max_steps=2",
    "grpo.per_device_train_batch_size=16",
    "grpo.num_generations=4",
    "task.limit=64",
]
MEASURE = Measure(prompts=40, curve_every=1, curve_prompts=20)
LORA = {"r": 2, "lora_alpha": 32, "target_modules": ["up_proj", "down_proj"]}
PARAMETERS = 6 * 2 * 2 * (128 + 384)


@pytest.fixture(scope="module")
def setup():
    return setup_of(run_config.embedded(QUICK), MEASURE)


@pytest.fixture(scope="module")
def bench(setup):
    return Bench(setup)


def job(setup, **changes):
    # Of seed 1 no completion is rewarded, and nothing moves; of seed 2 some are.
    fields = {
        "task": "t",
        "arm": "a",
        "phase": "tune",
        "seed": 1,
        "power": 0,
        "learning_rate": 1e-3,
        "parameters": PARAMETERS,
        "setup": setup,
        "trains": {"lora": LORA},
    }
    return Job(**{**fields, **changes})


def test_a_training_leaves_the_base_as_it_was_and_repeats_exactly(bench, setup):
    before = {name: tensor.clone() for name, tensor in bench.base.state_dict().items()}
    first, second = bench.run(job(setup)), bench.run(job(setup))
    after = bench.base.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert not hasattr(bench.base, "peft_config")
    assert (first.accuracy, first.curve) == (second.accuracy, second.curve)
    assert [step for step, _ in first.curve] == [1, 2]
    other = bench.run(job(setup, seed=2))
    assert other.accuracy != first.accuracy


def test_only_a_test_sees_the_split_that_arms_are_compared_on(bench, setup):
    tuned = bench.run(job(setup))
    tested = bench.run(job(setup, phase="test", seed=2))
    assert (tuned.split, tuned.split_sha256) == ("choose", setup["splits"]["choose"])
    assert (tested.split, tested.split_sha256) == ("report", setup["splits"]["report"])
    assert math.isnan(tuned.kl)
    assert tested.kl > 0
    assert not math.isnan(tested.skill_gain)


def test_the_base_is_measured_and_not_trained(bench, setup):
    record = bench.run(job(setup, phase="base", trains={}, parameters=0))
    assert record.split == "report"
    assert record.curve[0][0] == 0
    assert record.greedy == record.by_temperature["0"]
    assert record.best == max(record.by_temperature.values())
    assert record.accuracy < record.pass_at["4"] < record.pass_at["16"] < 1


def test_one_scalar_can_be_trained(bench, setup):
    record = bench.run(job(setup, trains={"temperature": True}, parameters=1, learning_rate=0.02))
    assert record.error is None


def test_an_arm_of_another_size_than_planned_is_refused(bench, setup):
    with pytest.raises(ConfigError, match=f"trains {PARAMETERS} parameters where 7 were planned"):
        bench.run(job(setup, parameters=7))


def test_what_goes_wrong_becomes_the_record_of_that_job(setup):
    wrong = run_job(job(setup, trains={"lora": {**LORA, "target_modules": ["nothing"]}}), threads=None)
    assert wrong.error is not None
    assert "nothing" in wrong.error
    assert math.isnan(wrong.accuracy)
    assert run_job(job(setup), threads=None).error is None


@pytest.mark.slow
def test_weights_that_are_not_finite_are_no_result(setup):
    record = run_job(job(setup, learning_rate=1e38), threads=None)
    assert record.error is not None


def test_prompts_that_were_trained_on_are_no_test(tmp_path):
    rows = "\n".join(f'{{"prompt": "{i}+1=", "answer": "{i + 1}.0"}}' for i in range(30))
    (tmp_path / "data.jsonl").write_text(rows + "\n")
    settings = [f"task={{dataset: {tmp_path}/data.jsonl, split: 'train[:50%]'}}", *QUICK[:3]]
    measure = Measure(prompts=40, split="train[40%:]", tuning_split="train[80%:]")
    with pytest.raises(ConfigError, match=r"prompts of the split 'train\[\d0%:\]' are also in"):
        setup_of(run_config.embedded(settings), measure)


def test_prompts_that_record_leaves_out_are_not_trained_on_here_either(tmp_path):
    rows = "\n".join(f'{{"prompt": "{i}+1=", "answer": "{i + 1}.0"}}' for i in range(30))
    (tmp_path / "data.jsonl").write_text(rows + "\n")
    task = f"dataset: {tmp_path}/data.jsonl, split: 'train[:20]', max_prompt_tokens: 4"
    measure = Measure(prompts=5, split="train[20:25]", tuning_split="train[25:]")
    setup = setup_of(run_config.embedded([f"task={{{task}, too_long: drop}}", *QUICK[:3]]), measure)
    assert len(Bench(setup).prompts) == 10  # of one digit
    with pytest.raises(ConfigError, match="10 of 20 prompts have more than 4 tokens"):
        setup_of(run_config.embedded([f"task={{{task}}}", *QUICK[:3]]), measure)


def test_a_setup_does_not_depend_on_defaults_that_are_spelled_out(setup):
    spelled_out = run_config.embedded([*QUICK, "model.dtype=float32", "seed=5", "grpo.learning_rate=1e-2"])
    assert setup_of(spelled_out, MEASURE) == setup
    assert setup_of(run_config.embedded([*QUICK, "grpo.beta=0.1"]), MEASURE) != setup


def test_texts_of_the_run_config_are_measured_beside_the_task():
    config = run_config.embedded([*QUICK, "evaluate.texts=[other_formats]"])
    setup = setup_of(config, MEASURE)
    assert list(setup["texts"]) == ["other_formats"]
    record = Bench(setup).run(job(setup, phase="base", trains={}, parameters=0))
    assert record.perplexity["other_formats"] > 1


@pytest.mark.slow
def test_a_reward_without_one_right_spelling_is_sampled():
    measure = Measure(prompts=30, samples=8)
    sampled_setup = setup_of(run_config.embedded(QUICK), measure)
    bench = Bench(sampled_setup)
    base = bench.run(job(sampled_setup, phase="base", trains={}, parameters=0))
    exact = Bench(setup_of(run_config.embedded(QUICK), Measure(prompts=30))).run(
        job(sampled_setup, phase="base", trains={}, parameters=0)
    )
    # 30 prompts × 8 samples at about .06: a standard error of .015.
    assert base.accuracy == pytest.approx(exact.accuracy, abs=0.06)
    assert base.pass_at["8"] >= base.accuracy
    assert math.isnan(base.greedy)
    assert set(base.by_temperature) == {"0", "0.3", "0.7", "1"}
    tested = bench.run(job(sampled_setup, phase="test", seed=2))
    assert tested.kl > 0
    assert math.isnan(tested.skill_gain)
    assert tested.curve == ()
    assert bench.run(job(sampled_setup, phase="base", trains={}, parameters=0)).accuracy == base.accuracy
