"""What a test knows of models that it cannot download: their `config.json`, as published."""

from __future__ import annotations

from typing import Any

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": {
        "model_type": "qwen2",
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "vocab_size": 151936,
        "tie_word_embeddings": False,
        "max_position_embeddings": 131072,
    },
    "nvidia/Nemotron-Mini-4B-Instruct": {
        "model_type": "nemotron",
        "hidden_size": 3072,
        "intermediate_size": 9216,
        "num_hidden_layers": 32,
        "num_attention_heads": 24,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 256000,
        "tie_word_embeddings": False,
        "max_position_embeddings": 4096,
    },
    "deepseek-ai/deepseek-llm-7b-chat": {
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 30,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "vocab_size": 102400,
        "tie_word_embeddings": False,
        "max_position_embeddings": 4096,
    },
    "Qwen/Qwen2.5-0.5B-Instruct": {
        "model_type": "qwen2",
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "vocab_size": 151936,
        "tie_word_embeddings": True,
        "max_position_embeddings": 32768,
    },
}
PARAMETERS = {
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": 1_777_088_000,
    "nvidia/Nemotron-Mini-4B-Instruct": 4_190_000_000,
    "deepseek-ai/deepseek-llm-7b-chat": 6_910_365_696,
    "Qwen/Qwen2.5-0.5B-Instruct": 494_032_768,
}
"""As their model cards or checkpoints count them; of Nemotron to three digits."""
