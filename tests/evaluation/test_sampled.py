from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from grpodyn.embedded import MODEL_DIR
from grpodyn.errors import ConfigError, UsageError
from grpodyn.evaluation import exact_accuracy, greedy_accuracy
from grpodyn.evaluation.sampled import Sampling, pass_at_k, sampled_accuracy
from grpodyn.rewards import reward
from grpodyn.tasks import task

EXAMPLES = task("arithmetic_format").split("choose").head(8)
DRAWN = Sampling(max_new_tokens=8)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_pass_at_k_is_the_share_of_draws_that_hold_a_right_one(k):
    for right in range(6):
        samples = [True] * right + [False] * (5 - right)
        draws = list(combinations(samples, k))
        assert pass_at_k(5, np.array([right]), k)[0] == pytest.approx(sum(map(any, draws)) / len(draws))
    with pytest.raises(UsageError):
        pass_at_k(5, np.array([1]), 6)


def any_format(completions, answer, **_):
    # Right in any of the four ways of writing the number.
    numbers = [text.strip("[]#").removesuffix(".0") for text in completions]
    return [float(number == wanted.removesuffix(".0")) for number, wanted in zip(numbers, answer, strict=True)]


@pytest.fixture(scope="module")
def shipped():
    return AutoModelForCausalLM.from_pretrained(MODEL_DIR), AutoTokenizer.from_pretrained(MODEL_DIR)


@pytest.fixture(scope="module")
def measured(shipped):
    model, tokenizer = shipped
    columns = {"answer": EXAMPLES.answers}
    return sampled_accuracy(model, tokenizer, EXAMPLES.prompts, columns, any_format, 16, DRAWN)


def test_agrees_with_exact_probabilities(shipped, measured):
    model, tokenizer = shipped
    written = ["{}", "[{}]", "#{}", "{}.0"]
    numbers = [answer.removesuffix(".0") for answer in EXAMPLES.answers]
    exact = sum(
        exact_accuracy(model, tokenizer, EXAMPLES.prompts, [form.format(number) for number in numbers])
        for form in written
    )
    # 8 × 16 samples; four standard errors.
    assert measured.accuracy == pytest.approx(exact, abs=4 * math.sqrt(0.25 / 128))
    judge = reward("exact_match", {}, None, None)
    columns = {"answer": EXAMPLES.answers}
    strict = sampled_accuracy(model, tokenizer, EXAMPLES.prompts, columns, judge, 2, DRAWN)
    assert strict.greedy == greedy_accuracy(model, tokenizer, EXAMPLES.prompts, EXAMPLES.answers)


def test_what_is_kept_of_it(measured):
    found = measured.metrics()
    assert set(found) == {
        "heldout/accuracy", "heldout/greedy_accuracy", "heldout/truncated", "heldout/ended", "heldout/mean_length",
        "heldout/pass@2", "heldout/pass@4", "heldout/pass@8", "heldout/pass@16",
    }  # fmt: skip
    assert found["heldout/accuracy"] <= found["heldout/pass@2"] <= found["heldout/pass@16"] <= 1
    assert found["heldout/ended"] == pytest.approx(1)


def test_what_is_cut_off_is_counted_and_a_judge_may_be_at_a_loss(shipped):
    model, tokenizer = shipped

    def at_a_loss(completions, **_):
        return [None for _ in completions]

    cut = sampled_accuracy(model, tokenizer, EXAMPLES.prompts[:2], {}, at_a_loss, 3, Sampling(max_new_tokens=1))
    assert cut.truncated == 1
    assert cut.accuracy == cut.greedy == 0
    assert cut.length == 1
    with pytest.raises(ConfigError, match="at least one"):
        sampled_accuracy(model, tokenizer, [], {}, at_a_loss, 3, DRAWN)
