from __future__ import annotations

import math

import pytest
import torch

from grpodyn.errors import ConfigError
from grpodyn.evaluation import token_entropy

PROMPTS = ("a", "bb", "ab", "bab")


def entropy_of(*weights):
    total = sum(weights)
    return -sum(w / total * math.log(w / total) for w in weights)


@pytest.mark.parametrize(("temperature", "weight"), [(1.0, 4), (0.5, 16), (2.0, 2)])
def test_golden(two_sided_model, toy_tokenizer, temperature, weight):
    # The next token is eos, a or b with weights 1, 4^(1/T), 1, whatever came before: so is the mean over any tokens.
    measured = token_entropy(two_sided_model, toy_tokenizer, PROMPTS, temperature, max_new_tokens=5, samples=3)
    assert measured == pytest.approx(entropy_of(1, weight, 1), rel=1e-5)


def test_tokens_after_the_end_do_not_count(toy_model, toy_tokenizer):
    class EndsAfterOne(torch.nn.Module):
        """First an even choice of a and b, then surely the end; what would follow is an even choice again."""

        calls = 0

        def forward(self, hidden):
            self.calls += 1
            row = [-1e9, 0.0, -1e9, -1e9, -1e9] if self.calls % 2 == 0 else [-1e9, -1e9, -1e9, 0.0, 0.0]
            return torch.tensor(row).expand(*hidden.shape[:-1], 5)

    toy_model.lm_head = EndsAfterOne()
    measured = token_entropy(toy_model, toy_tokenizer, PROMPTS, max_new_tokens=6)
    # Two tokens a completion, the end token among them: (ln 2 + 0) / 2.
    assert measured == pytest.approx(math.log(2) / 2, rel=1e-6)


def test_agrees_with_the_entropy_of_generated_tokens(toy_model, toy_tokenizer):
    """The slow way: transformers' own sampling, one prompt at a time, and the whole text scored again without cache."""
    n, total, tokens = 400, 0.0, 0
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(5)
        for prompt in PROMPTS:
            ids = toy_tokenizer([prompt] * n, return_tensors="pt")["input_ids"]
            out = toy_model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=True, temperature=0.7,
                                     top_k=0, top_p=1.0, max_new_tokens=4)  # fmt: skip
            log_p = (toy_model(out).logits[:, ids.shape[1] - 1 : -1] / 0.7).log_softmax(-1)
            each = -(log_p.exp() * log_p).sum(-1)
            ended = (out[:, ids.shape[1] :] == 1).cumsum(1)
            counts = torch.cat([torch.ones(n, 1, dtype=torch.bool), ended[:, :-1] == 0], dim=1)
            total, tokens = total + float(each[counts].sum()), tokens + int(counts.sum())
    measured = token_entropy(toy_model, toy_tokenizer, PROMPTS, 0.7, max_new_tokens=4, samples=n)
    # Entropies of single tokens differ by some .3 nats here, so means of 1,600 completions by about .01.
    assert measured == pytest.approx(total / tokens, abs=0.04)


def test_a_longer_prompt_beside_it_changes_nothing(toy_model, toy_tokenizer):
    # A first token's entropy is exact, so padding on the left must not show.
    alone = [token_entropy(toy_model, toy_tokenizer, [prompt], max_new_tokens=1) for prompt in PROMPTS]
    together = token_entropy(toy_model, toy_tokenizer, PROMPTS, max_new_tokens=1, batch_size=4)
    assert together == pytest.approx(sum(alone) / 4, rel=1e-5)
    assert len({round(entropy, 3) for entropy in alone}) > 1


def test_random_state_and_modes_are_left_alone(toy_model, toy_tokenizer):
    toy_model.train()
    toy_model.model.norm.eval()
    before = torch.get_rng_state()
    one = token_entropy(toy_model, toy_tokenizer, PROMPTS, max_new_tokens=3, seed=4)
    assert torch.equal(before, torch.get_rng_state())
    assert toy_model.training
    assert not toy_model.model.norm.training
    torch.rand(7)
    assert token_entropy(toy_model, toy_tokenizer, PROMPTS, max_new_tokens=3, seed=4) == one


@pytest.mark.parametrize(
    ("prompts", "options", "says"),
    [
        ((), {"max_new_tokens": 2}, "no prompts"),
        (PROMPTS, {"max_new_tokens": 2, "temperature": 0.0}, "temperature 0.0 must be > 0"),
        (PROMPTS, {"max_new_tokens": 0}, "max_new_tokens=0"),
    ],
)
def test_what_cannot_be_measured_is_refused(toy_model, toy_tokenizer, prompts, options, says):
    with pytest.raises(ConfigError, match=says):
        token_entropy(toy_model, toy_tokenizer, prompts, **options)
