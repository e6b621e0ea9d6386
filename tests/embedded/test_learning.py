from __future__ import annotations

import pytest
import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.trainer_callback import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from grpodyn.embedded import MODEL_DIR
from grpodyn.embedded.defaults import GRPO, LORA_GRPO, REWARDS, TASK
from grpodyn.evaluation import held_out_accuracy
from grpodyn.rewards import reward
from grpodyn.tasks import task

HELD_OUT = task(TASK).split("report").head(1000)


@pytest.fixture(scope="module")
def base():
    tokenizer = AutoTokenizer.from_pretrained(MODEL_DIR)
    return held_out_accuracy(AutoModelForCausalLM.from_pretrained(MODEL_DIR), tokenizer, HELD_OUT)


def train(tmp_path, settings, lora=None):
    tokenizer = AutoTokenizer.from_pretrained(MODEL_DIR)
    model = AutoModelForCausalLM.from_pretrained(MODEL_DIR)
    quiet = {"save_strategy": "no", "report_to": "none", "disable_tqdm": True, "dataloader_pin_memory": False}
    trainer = GRPOTrainer(
        model,
        reward_funcs=[reward(name) for name in REWARDS],
        args=GRPOConfig(output_dir=str(tmp_path), use_cpu=True, **quiet, **settings),
        train_dataset=task(TASK).to_dataset("train"),
        processing_class=tokenizer,
        peft_config=lora,
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return held_out_accuracy(trainer.model, tokenizer, HELD_OUT)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["full", "lora"])
def test_the_embedded_model_learns_and_is_not_just_cooled(tmp_path, base, kind):
    # Less than a third of the default run is enough: .063 becomes .82 in full, .66 by LoRA.
    lora = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
    settings = (GRPO if kind == "full" else LORA_GRPO) | {"max_steps": 60}
    with torch.random.fork_rng():
        trained = train(tmp_path, settings, None if kind == "full" else lora)
    assert trained.accuracy - base.accuracy >= 0.25
    assert trained.accuracy - base.best >= 0.10
    assert trained.greedy - base.greedy >= 0.10


def test_one_step_with_trl(tmp_path, base):
    settings = GRPO | {"max_steps": 1, "per_device_train_batch_size": 16}
    with torch.random.fork_rng():
        trained = train(tmp_path, settings)
    assert trained.accuracy != base.accuracy
    assert abs(trained.accuracy - base.accuracy) < 0.05
