"""The embedded default: a tiny base model with its tokenizer and GRPO settings; what `grpodyn record` alone trains."""

from __future__ import annotations

from pathlib import Path

MODEL_DIR = Path(__file__).parent / "model"
"""A Hugging Face model directory; `AutoModelForCausalLM` and `AutoTokenizer` load it."""
