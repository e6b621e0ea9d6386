"""The embedded default: a tiny base model with its tokenizer and GRPO settings; what `grpodyn record` alone trains."""

from __future__ import annotations

from pathlib import Path

SHIPPED = "embedded"
"""Name of the base model that comes with the package; its siblings are built on first use."""

MODEL_DIR = Path(__file__).parent / "model"
"""A Hugging Face model directory; `AutoModelForCausalLM` and `AutoTokenizer` load it."""
