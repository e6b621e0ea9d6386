"""The shape of the embedded models: a stock Qwen3 decoder, small."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpodyn.embedded.tokenizer import EOS, PAD

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, Qwen3ForCausalLM

LOCAL_WINDOW = 2
"""Tokens that a local layer sees, its own among them."""


def build_model(tokenizer: PreTrainedTokenizerBase, layers: int = 6, local_layers: int = 0) -> Qwen3ForCausalLM:
    """Return the model with random weights, drawn from torch's global generator.

    Embedding and head are tied and queries share keys and values in pairs, as in the small released Qwen3 models. The
    first `local_layers` see only the token before beside their own.
    """
    import torch  # keeps --help fast
    from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

    windows = {"use_sliding_window": True, "sliding_window": LOCAL_WINDOW} if local_layers else {}
    pad, eos = tokenizer.convert_tokens_to_ids([PAD, EOS])
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=layers,
        layer_types=["sliding_attention"] * local_layers + ["full_attention"] * (layers - local_layers),
        **windows,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=eos,
        pad_token_id=pad,
        dtype=torch.float32,
    )
    model = Qwen3ForCausalLM(config)
    # Nothing cut off, nothing sharpened: sampling draws from the model's own distribution.
    model.generation_config = GenerationConfig(
        do_sample=True, temperature=1.0, top_k=0, top_p=1.0, eos_token_id=eos, pad_token_id=pad, max_new_tokens=8
    )
    return model
