"""Forward KL from the start, against the sum over all completions."""

from __future__ import annotations

import copy
import itertools
import json
import math

import numpy as np
import pytest
import torch

from grpodyn.errors import ConfigError
from grpodyn.evaluation.drift import StartSamples, forward_drift, sample_start
from grpodyn.evaluation.token_scores import token_log_probabilities

EOS = 1


def moved(model, scale: float):
    other = copy.deepcopy(model)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(3)
        # Not the embedding: the pad's is zero, and normalizing blows the smallest change of it up.
        for name, parameter in other.named_parameters():
            if "embed" not in name:
                parameter.add_(scale * torch.randn_like(parameter))
    return other


def exact_kl(start, policy, prompt: list[int], most: int) -> float:
    """Sum π₀ ln(π₀/π) over every completion of at most `most` tokens, one by one."""
    total = 0.0
    for length in range(1, most + 1):
        answers = torch.tensor(
            [
                answer
                for answer in itertools.product(range(5), repeat=length)
                if EOS not in answer[:-1] and (answer[-1] == EOS or length == most)
            ]
        )
        ids = torch.cat([torch.tensor([prompt]).expand(len(answers), -1), answers], dim=1)
        with torch.no_grad():
            of_start, of_policy = (
                model(ids)
                .logits.double()
                .log_softmax(-1)[:, len(prompt) - 1 : -1]
                .gather(-1, answers[..., None])
                .sum((1, 2))
                for model in (start, policy)
            )
        total += float((of_start.exp() * (of_start - of_policy)).sum())
    return total


def sampled(model, tokenizer, count: int, seed: int = 0) -> StartSamples:
    return sample_start(model, tokenizer, ["ab"] * count, max_new_tokens=3, seed=seed)


@pytest.mark.parametrize("scale", [0.02, 0.15])
def test_it_estimates_the_sum_over_all_completions(toy_model, toy_tokenizer, scale: float) -> None:
    policy = moved(toy_model, scale)
    truth = exact_kl(toy_model, policy, [3, 4], 3)
    drift = forward_drift(policy, sampled(toy_model, toy_tokenizer, 1500))
    error = drift.nats.std(ddof=1) / math.sqrt(len(drift.nats))
    assert abs(drift.per_completion - truth) < 4 * error + 1e-4
    assert error < 0.2 * truth


def test_the_control_variate_takes_noise_out(toy_model, toy_tokenizer) -> None:
    start = sampled(toy_model, toy_tokenizer, 500)
    policy = moved(toy_model, 0.02)
    plain = [
        float((before - now).sum())
        for before, now in zip(start.log_probabilities, token_log_probabilities(policy, start.rows), strict=True)
    ]
    assert forward_drift(policy, start).nats.std() < 0.3 * np.std(plain)


def test_the_start_has_not_moved(toy_model, toy_tokenizer) -> None:
    drift = forward_drift(toy_model, sampled(toy_model, toy_tokenizer, 20))
    assert drift.nats == pytest.approx(np.zeros(20), abs=1e-6)
    assert drift.per_token == pytest.approx(0, abs=1e-6)


def test_completions_end_and_the_random_state_is_left_alone(toy_model, toy_tokenizer) -> None:
    toy_model.train()
    state = torch.get_rng_state()
    start = sample_start(toy_model, toy_tokenizer, ["a", "abba", "b"] * 20, max_new_tokens=6, batch_size=7)
    assert torch.equal(state, torch.get_rng_state())
    assert toy_model.training
    assert [row.given for row in start.rows[:3]] == [(3,), (3, 4, 4, 3), (4,)]
    for row in start.rows:
        assert EOS not in row.scored[:-1]
        assert row.scored[-1] == EOS or len(row.scored) == 6


def test_it_goes_through_json(toy_model, toy_tokenizer) -> None:
    start = sampled(toy_model, toy_tokenizer, 4)
    back = StartSamples.from_json(json.loads(json.dumps(start.to_json())))
    assert back.rows == start.rows
    policy = moved(toy_model, 0.1)
    assert forward_drift(policy, back).nats == pytest.approx(forward_drift(policy, start).nats)


def test_no_prompts(toy_model, toy_tokenizer) -> None:
    with pytest.raises(ConfigError, match="no prompts to measure drift on"):
        sample_start(toy_model, toy_tokenizer, [], max_new_tokens=3)
