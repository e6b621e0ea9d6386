from __future__ import annotations

import copy
import math

import pytest
import torch

from grpodyn.errors import ConfigError
from grpodyn.evaluation import match_temperature, skill_gain
from grpodyn.evaluation.skill_gain import HIGHEST, LOWEST, TOLERANCE, EntropyMatch
from grpodyn.tasks import Examples

EXAMPLES = Examples(("b", "ab", "aab"), ("a", "a", "a"))


def entropy_at(temperature):
    """Of weights 1, 4^(1/T), 1, whatever came before."""
    w = 4 ** (1 / temperature)
    return -2 / (w + 2) * math.log(1 / (w + 2)) - w / (w + 2) * math.log(w / (w + 2))


def accuracy_at(temperature):
    """Of "a" and then the end, which are w/(w+2) and 1/(w+2)."""
    w = 4 ** (1 / temperature)
    return w / (w + 2) ** 2


def with_logits(model, *logits):
    class Constant(torch.nn.Module):
        def forward(self, hidden):
            return torch.tensor([-1e9, *logits[:1], -1e9, *logits[1:]]).expand(*hidden.shape[:-1], 5)

    other = copy.deepcopy(model)
    other.lm_head = Constant()
    return other


@pytest.mark.parametrize("temperature", [0.4, 1.0, 3.0])
def test_the_temperature_of_an_entropy_is_found(two_sided_model, toy_tokenizer, temperature):
    match = match_temperature(
        two_sided_model, toy_tokenizer, EXAMPLES.prompts, entropy_at(temperature), max_new_tokens=3
    )
    assert match.reached
    assert match.entropy == pytest.approx(entropy_at(temperature), abs=TOLERANCE)
    # dH/dT is .23 nats here at its least, at T=3 (.03): the entropy decides the temperature to a few per cent.
    assert match.temperature == pytest.approx(temperature, rel=0.08)


@pytest.mark.parametrize("wanted", [0.0, 1e-4, 0.05, 0.4, 0.9, 1.0])
def test_any_entropy_that_the_model_can_have_is_reached(two_sided_model, toy_tokenizer, wanted):
    match = match_temperature(two_sided_model, toy_tokenizer, EXAMPLES.prompts, wanted, max_new_tokens=2)
    assert match.reached, match
    assert LOWEST <= match.temperature <= HIGHEST


def test_an_entropy_out_of_reach_gives_the_nearer_end_and_says_so(two_sided_model, toy_tokenizer):
    # Three tokens are possible: no temperature gives more than ln 3.
    match = match_temperature(two_sided_model, toy_tokenizer, EXAMPLES.prompts, 1.3, max_new_tokens=2)
    assert not match.reached
    assert match.temperature == HIGHEST
    with pytest.raises(ConfigError, match=r"-0\.1 nats cannot be matched"):
        match_temperature(two_sided_model, toy_tokenizer, EXAMPLES.prompts, -0.1, max_new_tokens=2)


def test_a_match_is_reached_within_the_tolerance():
    assert EntropyMatch(1.0, 0.5, 0.5 + TOLERANCE).reached
    assert not EntropyMatch(1.0, 0.5, 0.5 + 3 * TOLERANCE).reached


def test_cooling_is_no_skill(two_sided_model, toy_tokenizer):
    # Logits 0, ln 4, 0 divided by 2 are 0, ln 2, 0: the tuned model is its base at T=2, where it is more often right.
    tuned = with_logits(two_sided_model, 0.0, math.log(2), 0.0)
    measured = skill_gain(two_sided_model, tuned, toy_tokenizer, EXAMPLES, max_new_tokens=3)
    assert measured.match.temperature == pytest.approx(2.0, rel=0.08)
    assert measured.gain == pytest.approx(accuracy_at(2) - accuracy_at(1), rel=1e-5)
    assert measured.gain > 0.01
    # Accuracy is at its highest at T=2, so flat around it.
    assert measured.skill_gain == pytest.approx(0.0, abs=5e-4)
    assert measured.greedy_gain == 0.0


def test_another_choice_is_skill(two_sided_model, toy_tokenizer):
    # The same three chances in another order, so the same entropy: the base is matched at T=1, and all gain is skill.
    tuned = with_logits(two_sided_model, math.log(4), 0.0, 0.0)
    answers = Examples(EXAMPLES.prompts, ("", "", ""))
    measured = skill_gain(two_sided_model, tuned, toy_tokenizer, answers, max_new_tokens=3)
    assert measured.match.temperature == pytest.approx(1.0, rel=0.03)
    assert measured.skill_gain == pytest.approx(4 / 6 - 1 / 6, abs=0.01)
    assert measured.greedy_gain == 1.0
    numbers = measured.metrics()
    assert numbers["skill_gain"] == measured.skill_gain
    assert numbers["base_matched"] == measured.base.by_temperature[measured.match.temperature]
    assert numbers["tuned_entropy"] == pytest.approx(entropy_at(1.0), rel=1e-5)
