from __future__ import annotations

import pytest
import torch

from grpodyn import embedded
from grpodyn.cli.commands.record import _show_plan
from grpodyn.config import run
from grpodyn.errors import ConfigError
from grpodyn.training.loading import load_model
from grpodyn.training.plan import plan_run


def test_parameters_and_bytes_are_those_of_the_loaded_model() -> None:
    plan = plan_run(run.embedded())
    model = load_model(run.embedded().model)
    assert plan.parameters == plan.trainable_parameters == model.num_parameters()
    assert plan.memory.weights == sum(p.numel() * p.element_size() for p in model.parameters())
    assert plan.memory.optimizer == 2 * plan.memory.gradients == 2 * plan.memory.weights
    # A file holds the same weights and a header.
    assert plan.memory.weights < (embedded.MODEL_DIR / "model.safetensors").stat().st_size < 1.05 * plan.memory.weights


def test_counts_of_a_run() -> None:
    # 32 completions a step are 4 prompts of 8; 10 steps are 320 completions of at most 8 tokens; prompts have 6 each.
    plan = plan_run(run.embedded(["grpo.per_device_train_batch_size=32", "grpo.max_steps=10"]))
    assert (plan.steps, plan.prompts_per_step, plan.completions) == (10, 4, 320)
    assert plan.completion_tokens_at_most == 320 * 8
    assert plan.prompt_tokens == 320 * 6


def test_without_max_steps_the_dataset_decides() -> None:
    settings = ["grpo.max_steps=-1", "grpo.num_train_epochs=2", "grpo.per_device_train_batch_size=32", "task.limit=40"]
    plan = plan_run(run.embedded(settings))
    assert (plan.training_prompts, plan.steps, plan.epochs) == (40, 20, 2.0)


def test_an_adapter_is_small_and_kept_in_float32_over_a_bfloat16_base() -> None:
    # r=2 on q_proj: 2 · (in + out) of each of the layers.
    plan = plan_run(run.embedded(["model.dtype=bfloat16", "lora={r: 2, target_modules: [q_proj]}"]))
    config = load_model(run.embedded().model).config
    inputs, outputs = config.hidden_size, config.num_attention_heads * config.head_dim
    assert plan.trainable_parameters == config.num_hidden_layers * 2 * (inputs + outputs)
    assert plan.memory.gradients == 4 * plan.trainable_parameters
    assert plan.memory.weights == 2 * plan.parameters


@pytest.mark.parametrize(
    ("settings", "copies"),
    [([], 0), (["grpo.beta=0.1"], 1), (["grpo.beta=0.1", "lora={r: 2, target_modules: [q_proj]}"], 0)],
)
def test_a_reference_model_is_kept_only_where_trl_keeps_one(settings: list[str], copies: int) -> None:
    memory = plan_run(run.embedded(settings)).memory
    assert memory.reference_model == copies * memory.weights


def test_an_optimizer_that_is_not_known_is_not_guessed() -> None:
    memory = plan_run(run.embedded(["grpo.optim=lion_32bit"])).memory
    assert memory.optimizer is None
    assert memory.total is None


@pytest.mark.parametrize(
    "setting", ["grpo.learning_rate=.nan", "grpo.learning_rate=1e400", "grpo.max_stepz=3", "grpo.beta=text"]
)
def test_what_a_run_would_refuse_is_not_planned(setting: str) -> None:
    with pytest.raises(ConfigError, match="grpo"):
        plan_run(run.embedded([setting]))


def test_activations_are_what_autograd_keeps_of_a_forward_pass() -> None:
    config = run.embedded(["grpo.per_device_train_batch_size=16"])
    model = load_model(config.model)
    kept: dict[int, torch.UntypedStorage] = {}
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}

    def pack(saved: torch.Tensor) -> torch.Tensor:
        if saved.untyped_storage().data_ptr() not in own:
            kept[saved.untyped_storage().data_ptr()] = saved.untyped_storage()
        return saved

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved):
        output = model(input_ids=torch.zeros((16, 6 + 8), dtype=torch.long), use_cache=False, logits_to_keep=1)
    assert output is not None
    measured = sum(storage.nbytes() for storage in kept.values())
    # The twin may take another attention kernel than the CPU does.
    assert plan_run(config).memory.activations == pytest.approx(measured, rel=0.1)


SFT = "sft={trainer: {max_steps: 5, per_device_train_batch_size: 4, gradient_accumulation_steps: 2}}"


def test_fine_tuning_is_counted_as_a_stage() -> None:
    plan = plan_run(run.embedded([SFT, "grpo.max_steps=10", "grpo.per_device_train_batch_size=32"]))
    sft, grpo = plan.stages
    assert (plan.steps, plan.completions) == (15, 320)
    assert (sft.name, sft.kind, sft.steps, sft.steps_are_most) == ("sft", "sft", 5, False)
    # 5 steps of 8 prompts of 6 tokens each; answers such as 68.0 have 3 to 5 characters, and an end token.
    assert sft.prompt_tokens == 5 * 8 * 6
    assert 5 * 8 * 4 <= sft.completion_tokens <= 5 * 8 * 7
    assert (grpo.name, grpo.steps, grpo.completion_tokens) == ("grpo", 10, 320 * 8)
    # Four rows a micro-batch in place of 32, nothing is sampled: GRPO holds the most.
    assert sft.memory.generation_cache == 0
    assert sft.memory.activations < grpo.memory.activations
    assert plan.memory == grpo.memory


def test_epochs_of_fine_tuning_are_steps() -> None:
    plan = plan_run(
        run.embedded(["task.limit=40", "sft={trainer: {num_train_epochs: 2, per_device_train_batch_size: 8}}"])
    )
    assert plan.stages[0].steps == 10


def test_a_curriculum_takes_at_most_so_many_steps() -> None:
    stages = [{"name": name, "task": "arithmetic_format"} for name in "ab"]
    grpo = {"lr_scheduler_type": "constant", "per_device_train_batch_size": 8, "max_completion_length": 6}
    raw = {"model": "embedded", "curriculum": {"stages": stages, "most_steps": 7}, "grpo": grpo}
    plan = plan_run(run.from_dict(raw, "here"))
    assert [(one.name, one.steps, one.steps_are_most) for one in plan.stages] == [("a", 7, True), ("b", 7, True)]
    assert plan.steps == 14


def test_a_fine_tuning_that_a_run_would_refuse_is_not_planned() -> None:
    with pytest.raises(ConfigError, match=r"sft\.trainer"):
        plan_run(run.embedded(["sft={trainer: {max_stepz: 5}}"]))


def test_a_plan_of_stages_is_shown_stage_by_stage(capsys: pytest.CaptureFixture[str]) -> None:
    _show_plan(plan_run(run.embedded([SFT, "grpo.max_steps=10"])))
    said = capsys.readouterr().out
    assert "15 in 2 stages" in said
    assert any(line.split()[:3] == ["sft", "sft", "5"] for line in said.splitlines())
