"""A LoRA run in TRL, recorded: rows of the trace are the effective changes (α/r)·B·A of each adapted matrix.

python examples/trl_lora.py runs/lora
"""

import sys

from datasets import Dataset
from peft import LoraConfig
from trl import GRPOConfig, GRPOTrainer

from grpodyn import Recorder, open_run
from grpodyn.embedded import MODEL_DIR


def digits(completions: list[str], **_: object) -> list[float]:
    """Return the share of each completion's characters that are digits."""
    return [sum(character.isdigit() for character in text) / max(1, len(text)) for text in completions]


def main(run_dir: str) -> None:
    """Train an adapter for a few steps, and say which matrices it moved most."""
    prompts = Dataset.from_dict({"prompt": [f"{a}+{b}=" for a in range(10, 20) for b in range(10, 14)]})
    trainer = GRPOTrainer(
        model=str(MODEL_DIR),
        reward_funcs=digits,
        args=GRPOConfig(
            output_dir=f"{run_dir}-output",
            max_steps=5,
            learning_rate=1e-3,
            per_device_train_batch_size=8,
            num_generations=4,
            max_completion_length=8,
            report_to=[],
            save_strategy="no",
            bf16=False,
            disable_tqdm=True,
            gradient_checkpointing=False,
        ),
        train_dataset=prompts,
        peft_config=LoraConfig(r=4, lora_alpha=32, target_modules="all-linear"),
        callbacks=[Recorder(run_dir)],
    )
    trainer.train()

    tensors = open_run(run_dir).tensors
    adapted = tensors.isel(row=-1, tensor=tensors["source"].values == "lora")["delta_norm"].load()
    for place in adapted.argsort().values[::-1][:5]:
        sys.stdout.write(f"{adapted['tensor'].values[place]:45}  ‖ΔW‖ = {float(adapted[place]):.4f}\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/lora")
