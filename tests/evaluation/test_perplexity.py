"""Token scores, perplexity and its change."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from grpodyn.errors import UsageError
from grpodyn.evaluation import token_scores
from grpodyn.evaluation.perplexity import WindowLosses, perplexity_ratio, window_losses
from grpodyn.evaluation.text import Document, HeldOutText, windows
from grpodyn.evaluation.token_scores import Row, token_log_probabilities


def losses(nats: list[float], tokens: list[float], words: list[float] | None = None) -> WindowLosses:
    return WindowLosses(np.array(nats), np.array(tokens), np.array(words or tokens))


def test_scores_equal_one_forward_a_row(toy_model) -> None:
    rows = [Row((3,), (4, 3, 1)), Row((3, 4, 4, 3), (4,)), Row((4,), (3, 3, 3, 4, 1))]
    found = token_log_probabilities(toy_model, rows)
    for row, scores in zip(rows, found, strict=True):
        ids = torch.tensor([row.given + row.scored])
        with torch.no_grad():
            log_p = toy_model(ids).logits[0].double().log_softmax(-1)
        expected = [log_p[len(row.given) - 1 + i, token].item() for i, token in enumerate(row.scored)]
        assert scores == pytest.approx(expected, abs=1e-5)


def test_small_batches_change_nothing(toy_model, monkeypatch) -> None:
    rows = [Row((3,), tuple([4, 3] * n)) for n in (1, 3, 2, 5)]
    whole = token_log_probabilities(toy_model, rows)
    monkeypatch.setattr(token_scores, "LOGITS_AT_ONCE", 40)
    for a, b in zip(whole, token_log_probabilities(toy_model, rows), strict=True):
        assert a == pytest.approx(b, abs=1e-5)


def test_the_mode_of_training_and_the_random_state_are_left_alone(toy_model) -> None:
    toy_model.train()
    state = torch.get_rng_state()
    first = token_log_probabilities(toy_model, [Row((3,), (4, 4))])
    assert toy_model.training
    assert torch.equal(state, torch.get_rng_state())
    assert token_log_probabilities(toy_model, [Row((3,), (4, 4))])[0] == pytest.approx(first[0])


def test_perplexity_of_a_model_that_guesses(toy_model, toy_tokenizer) -> None:
    # Zero output weights: every one of 5 tokens is equally likely.
    with torch.no_grad():
        toy_model.lm_head.weight.zero_()
    cut = windows(HeldOutText("t", (Document("abbabaab"),)), toy_tokenizer, 3, 10)
    assert window_losses(toy_model, cut).perplexity == pytest.approx(5, rel=1e-5)


def test_by_hand() -> None:
    # 6 nats over 4 tokens, in 3 words.
    found = losses([2.0, 4.0], [1, 3], [1, 2])
    assert found.perplexity == pytest.approx(math.exp(1.5))
    assert found.word_perplexity == pytest.approx(math.exp(2))
    assert math.isnan(losses([1.0], [1], [0]).word_perplexity)
    assert losses([1e6], [1]).perplexity == math.inf


def test_the_change_is_paired_over_windows() -> None:
    # Windows differ by 9 nats a token, each got worse by .1 to .12 a token: the pairs see that, the spread would not.
    before = losses([10.0, 100.0, 20.0, 50.0], [10, 10, 10, 10])
    after = losses([11.0, 101.2, 21.0, 51.2], [10, 10, 10, 10])
    ratio = perplexity_ratio(before, after)
    assert ratio.value == pytest.approx(math.exp(0.11))
    assert 1.08 < ratio.low < ratio.value < ratio.high < 1.15


def test_longer_windows_count_more() -> None:
    ratio = perplexity_ratio(losses([0, 0], [1, 9]), losses([1, 0], [1, 9]))
    assert ratio.value == pytest.approx(math.exp(0.1))


def test_one_window_has_no_spread() -> None:
    ratio = perplexity_ratio(losses([1], [10]), losses([2], [10]))
    assert ratio.value == pytest.approx(math.exp(0.1))
    assert not ratio.known


def test_windows_of_another_text_are_refused() -> None:
    with pytest.raises(UsageError, match="not of one text cut alike"):
        perplexity_ratio(losses([1, 2], [1, 1]), losses([1, 2], [1, 2]))


@pytest.mark.slow
def test_the_interval_of_the_change_covers_as_it_says() -> None:
    rng = np.random.default_rng(0)
    hits = []
    for _ in range(2000):
        tokens = rng.integers(50, 257, size=40).astype(float)
        before = rng.gamma(3, 1, size=40) * tokens
        change = (0.05 + 0.1 * rng.standard_t(5, size=40)) * tokens
        ratio = perplexity_ratio(WindowLosses(before, tokens, tokens), WindowLosses(before + change, tokens, tokens))
        hits.append(ratio.contains(math.exp(0.05)))
    assert 0.93 <= np.mean(hits) <= 0.97
