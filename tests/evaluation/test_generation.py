from __future__ import annotations

import pytest
import torch
from transformers import GenerationConfig

from grpodyn.evaluation import token_entropy
from grpodyn.evaluation.drift import sample_start
from grpodyn.evaluation.sampled import Sampling, sampled_accuracy

PROMPTS = ("a", "bb", "ab", "bab")
# What a chat model may come with; each of these alone changes what is drawn.
ITS_OWN = GenerationConfig(
    do_sample=True, temperature=0.1, top_k=1, top_p=0.1, min_p=0.9, typical_p=0.1, repetition_penalty=9.0,
    no_repeat_ngram_size=1, min_new_tokens=5, eos_token_id=1, pad_token_id=0,
)  # fmt: skip


def said(model, tokenizer):
    heard = []

    def judge(completions, completion_ids, **_):
        heard.append([tuple(ids) for ids in completion_ids])
        return [0.0] * len(completions)

    sampled_accuracy(model, tokenizer, PROMPTS, {}, judge, 4, Sampling(max_new_tokens=6))
    return heard


@pytest.mark.filterwarnings("ignore")
def test_what_a_model_s_own_config_says_changes_nothing(toy_model, toy_tokenizer):
    toy_model.generation_config = GenerationConfig(eos_token_id=1, pad_token_id=0)
    drawn = said(toy_model, toy_tokenizer)
    start = sample_start(toy_model, toy_tokenizer, PROMPTS, max_new_tokens=6)
    entropy = token_entropy(toy_model, toy_tokenizer, PROMPTS, max_new_tokens=6)
    assert any(len(set(ids)) < len(ids) for ids in drawn[0]), "greedy completions must repeat something"
    toy_model.generation_config = ITS_OWN
    with torch.random.fork_rng():
        assert said(toy_model, toy_tokenizer) == drawn
        assert sample_start(toy_model, toy_tokenizer, PROMPTS, max_new_tokens=6).rows == start.rows
        assert token_entropy(toy_model, toy_tokenizer, PROMPTS, max_new_tokens=6) == entropy
