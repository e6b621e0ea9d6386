from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model

from grpodyn.errors import ConfigError
from grpodyn.evaluation import score_answers

PROMPTS = ["a", "bab", "ba", "abba", "b"]


def chain_rule(model, prompt_ids, answer_ids, temperature=1.0, ends=(1,)):
    """ln P by one forward pass a token: no padding, no batch, float64 softmax."""
    total = 0.0
    with torch.no_grad():
        for position in range(len(answer_ids) + 1):
            ids = torch.tensor([prompt_ids + answer_ids[:position]])
            p = (model(input_ids=ids).logits[0, -1].double() / temperature).softmax(-1)
            last = position == len(answer_ids)
            total += math.log(sum(p[e].item() for e in ends) if last else p[answer_ids[position]].item())
    return total


@pytest.mark.parametrize("temperature", [0.3, 1.0, 1.7])
def test_equals_the_chain_rule_for_every_short_completion(toy_model, toy_tokenizer, temperature):
    words = ["<pad>", "<unk>", "a", "b"]
    answers = ["".join(w) for n in range(3) for w in itertools.product(words, repeat=n)]
    assert len(answers) == 1 + 4 + 16
    for prompt in PROMPTS[:2]:
        scores = score_answers(toy_model, toy_tokenizer, [prompt] * len(answers), answers, (temperature,))
        expected = [
            chain_rule(toy_model, toy_tokenizer(prompt)["input_ids"], toy_tokenizer(a)["input_ids"], temperature)
            for a in answers
        ]
        np.testing.assert_allclose(scores.log_probability[0], expected, rtol=0, atol=2e-5)


def test_all_completions_together_have_probability_one(toy_model, toy_tokenizer):
    # Whatever is sampled either ends within two tokens, or its first three tokens hold no end.
    words = ["<pad>", "<unk>", "a", "b"]
    short = ["".join(w) for n in range(3) for w in itertools.product(words, repeat=n)]
    ended = np.exp(score_answers(toy_model, toy_tokenizer, ["ab"] * len(short), short).log_probability).sum()
    going_on = 0.0
    prompt = toy_tokenizer("ab")["input_ids"]
    for first, second in itertools.product([0, 2, 3, 4], repeat=2):
        with torch.no_grad():
            p = toy_model(input_ids=torch.tensor([[*prompt, first, second]])).logits[0, -3:].double().softmax(-1)
        going_on += (p[0, first] * p[1, second] * (1 - p[2, 1])).item()
    assert ended + going_on == pytest.approx(1.0, abs=1e-6)


def test_a_model_without_a_preference_gives_one_over_v_per_token(toy_model, toy_tokenizer):
    # All logits 0: each of the 5 tokens has 1/5, an answer of n tokens and its end 5^-(n+1), at any temperature.
    torch.nn.init.zeros_(toy_model.lm_head.weight)
    scores = score_answers(toy_model, toy_tokenizer, ["a", "ba", "b"], ["", "ab", "bbb"], (0.5, 1.0))
    np.testing.assert_allclose(scores.log_probability, -math.log(5) * np.array([[1, 3, 4]] * 2), rtol=1e-6)


def test_padding_and_batches_change_nothing(toy_model, toy_tokenizer):
    answers = ["abab", "", "b", "aa", "bba"]
    together = score_answers(toy_model, toy_tokenizer, PROMPTS, answers, (1.0, 0.5))
    alone = score_answers(toy_model, toy_tokenizer, PROMPTS, answers, (1.0, 0.5), batch_size=1)
    np.testing.assert_allclose(together.log_probability, alone.log_probability, atol=2e-5)
    np.testing.assert_array_equal(together.greedy, alone.greedy)


def greedy_completions(model, tokenizer, prompts):
    """What greedy generation gives and ends within 12 tokens, by prompt."""
    ended = {}
    for prompt in prompts:
        ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
        mask = torch.ones_like(ids)
        out = model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=12, pad_token_id=0)
        new = out[0, ids.shape[1] :].tolist()
        if 1 in new:
            ended[prompt] = tokenizer.decode(new[: new.index(1)])
    return ended


def test_greedy_is_what_greedy_generation_gives(toy_model, toy_tokenizer):
    prompts = ["".join(word) for n in (1, 2, 3, 4) for word in itertools.product("ab", repeat=n)]
    ended = greedy_completions(toy_model, toy_tokenizer, prompts)
    assert len(set(ended.values())) > 1, "the toy model must end several answers for this test to say anything"
    right = list(ended.values())
    assert score_answers(toy_model, toy_tokenizer, list(ended), right).greedy.all()
    assert not score_answers(toy_model, toy_tokenizer, list(ended), [a + "a" for a in right]).greedy.any()
    assert not score_answers(toy_model, toy_tokenizer, list(ended), ["b" + a for a in right]).greedy.all()


def test_every_end_token_ends_an_answer(toy_model, toy_tokenizer):
    toy_model.generation_config.eos_token_id = [1, 2]
    got = score_answers(toy_model, toy_tokenizer, ["ab"], ["ba"]).log_probability[0, 0]
    assert got == pytest.approx(chain_rule(toy_model, [3, 4], [4, 3], ends=(1, 2)), abs=2e-5)
    toy_model.generation_config.eos_token_id = 1
    assert got > score_answers(toy_model, toy_tokenizer, ["ab"], ["ba"]).log_probability[0, 0]


def test_an_adapter_is_scored_too(toy_model, toy_tokenizer):
    plain = score_answers(toy_model, toy_tokenizer, PROMPTS, PROMPTS).log_probability
    adapted = get_peft_model(toy_model, LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM"))
    np.testing.assert_allclose(
        score_answers(adapted, toy_tokenizer, PROMPTS, PROMPTS).log_probability, plain, atol=1e-6
    )
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.constant_(parameter, 0.1)
    changed = score_answers(adapted, toy_tokenizer, ["ab"], ["ba"]).log_probability[0, 0]
    assert changed == pytest.approx(chain_rule(adapted.eval(), [3, 4], [4, 3]), abs=2e-5)


def test_training_is_left_alone(toy_model, toy_tokenizer):
    toy_model.train()
    toy_model.model.layers[0].eval()
    modes = [module.training for module in toy_model.modules()]
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    one = score_answers(toy_model, toy_tokenizer, PROMPTS, PROMPTS)
    two = score_answers(toy_model, toy_tokenizer, PROMPTS, PROMPTS)
    # Equal although attention dropout is .5: it was off.
    np.testing.assert_array_equal(one.log_probability, two.log_probability)
    assert [module.training for module in toy_model.modules()] == modes
    assert torch.equal(states[0], torch.get_rng_state())
    np.testing.assert_array_equal(states[1], np.random.get_state()[1])
    assert states[2] == random.getstate()
    assert all(parameter.grad is None for parameter in toy_model.parameters())


def test_modes_come_back_after_an_error(toy_model, toy_tokenizer, monkeypatch):
    toy_model.train()
    monkeypatch.setattr(toy_model.lm_head, "forward", lambda _: (_ for _ in ()).throw(RuntimeError("no")))
    with pytest.raises(RuntimeError, match="no"):
        score_answers(toy_model, toy_tokenizer, PROMPTS, PROMPTS)
    assert all(module.training for module in toy_model.modules())


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"prompts": []}, "0 prompts and 1 answers"),
        ({"answers": ["a", "b"]}, "1 prompts and 2 answers"),
        ({"temperatures": (1.0, 0.0)}, "must be > 0"),
        ({"temperatures": (float("nan"),)}, "must be > 0"),
        ({"batch_size": 0}, "at least 1"),
    ],
)
def test_senseless_requests_are_refused(toy_model, toy_tokenizer, options, reason):
    with pytest.raises(ConfigError, match=reason):
        score_answers(toy_model, toy_tokenizer, **({"prompts": ["a"], "answers": ["b"]} | options))


def test_a_model_that_cannot_end_is_refused(toy_model, toy_tokenizer):
    toy_model.generation_config.eos_token_id = None
    toy_tokenizer.eos_token = None
    with pytest.raises(ConfigError, match="no answer ever ends"):
        score_answers(toy_model, toy_tokenizer, ["a"], ["b"])
