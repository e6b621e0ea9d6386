from __future__ import annotations

import math

import pytest
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM


@pytest.fixture
def toy_tokenizer():
    backend = Tokenizer(models.WordLevel({"<pad>": 0, "<eos>": 1, "<unk>": 2, "a": 3, "b": 4}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    backend.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )


@pytest.fixture
def toy_model():
    config = Qwen3Config(
        vocab_size=5, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, max_position_embeddings=32, tie_word_embeddings=False,
        attention_dropout=0.5, initializer_range=0.6, bos_token_id=None, eos_token_id=1, pad_token_id=0,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(11)  # a seed whose greedy completions differ and mostly end
        return Qwen3ForCausalLM(config).eval()


@pytest.fixture
def two_sided_model(toy_model):
    """Every next token, whatever came before: <eos> 0, a ln 4, b 0, pad and unk −inf, as far as float32 goes."""

    class Constant(torch.nn.Module):
        def forward(self, hidden):
            return torch.tensor([-1e9, 0.0, -1e9, math.log(4), 0.0]).expand(*hidden.shape[:-1], 5)

    toy_model.lm_head = Constant()
    return toy_model
