"""A fine-tuning script as people have them: it knows nothing of grpodyn.

python examples/plain_trainer.py --steps 20
grpodyn record --run-dir runs/plain -- examples/plain_trainer.py --steps 20
"""

import argparse

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM, Trainer, TrainingArguments


def main() -> None:
    """Train a model of some thousand parameters to count upwards."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--output", default="out")
    options = parser.parse_args()

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=32,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
    )
    counting = [(torch.arange(12) + start) % 32 for start in range(64)]
    trainer = Trainer(
        Qwen3ForCausalLM(config),
        TrainingArguments(
            options.output,
            max_steps=options.steps,
            learning_rate=3e-3,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            logging_steps=5,
        ),
        train_dataset=[{"input_ids": ids, "labels": ids} for ids in counting],
    )
    trainer.train()


if __name__ == "__main__":
    main()
