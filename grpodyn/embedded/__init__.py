"""The embedded default: a tiny base model, its tokenizer and its GRPO settings, so that `grpodyn record` runs as it is."""

from __future__ import annotations

from pathlib import Path

MODEL_DIR = Path(__file__).parent / "model"
"""A Hugging Face model directory; `AutoModelForCausalLM` and `AutoTokenizer` load it."""
