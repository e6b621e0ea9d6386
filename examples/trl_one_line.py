"""TRL's GRPO on the embedded model, recorded by one line: `callbacks=[Recorder(...)]`.

python examples/trl_one_line.py runs/trl
"""

import sys

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from grpodyn import Recorder
from grpodyn.embedded import MODEL_DIR


def digits(completions: list[str], **_: object) -> list[float]:
    """Return the share of each completion's characters that are digits."""
    return [sum(character.isdigit() for character in text) / max(1, len(text)) for text in completions]


def main(run_dir: str) -> None:
    """Train for a few steps."""
    prompts = Dataset.from_dict({"prompt": [f"{a}+{b}=" for a in range(10, 20) for b in range(10, 14)]})
    trainer = GRPOTrainer(
        model=str(MODEL_DIR),
        reward_funcs=digits,
        args=GRPOConfig(
            output_dir=f"{run_dir}-output",
            max_steps=5,
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
        callbacks=[Recorder(run_dir)],
    )
    trainer.train()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/trl")
