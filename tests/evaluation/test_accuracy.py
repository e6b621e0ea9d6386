from __future__ import annotations

import pytest

from grpodyn.evaluation import (
    HeldOutAccuracy,
    exact_accuracy,
    greedy_accuracy,
    held_out_accuracy,
)
from grpodyn.tasks import Examples


def test_golden(two_sided_model, toy_tokenizer):
    # At T=1 the chances are eos 1/6, a 4/6, b 1/6; at T=1/2 eos 1/18, a 16/18, b 1/18.
    # "a" then end: 4/36 and 16/324; "b" then end: 1/36 and 1/324.
    one = exact_accuracy(two_sided_model, toy_tokenizer, ["b", "ab"], ["a", "b"])
    half = exact_accuracy(two_sided_model, toy_tokenizer, ["b", "ab"], ["a", "b"], temperature=0.5)
    assert one == pytest.approx((4 / 36 + 1 / 36) / 2, rel=1e-6)
    assert half == pytest.approx((16 / 324 + 1 / 324) / 2, rel=1e-6)
    # Greedy never ends.
    assert greedy_accuracy(two_sided_model, toy_tokenizer, ["b"], ["a"]) == 0.0
    assert exact_accuracy(two_sided_model, toy_tokenizer, ["b"], ["a"], temperature=0) == 0.0


def test_one_pass_gives_the_same_as_each_alone(toy_model, toy_tokenizer):
    examples = Examples(("a", "bb", "ab"), ("b", "", "ba"))
    measured = held_out_accuracy(toy_model, toy_tokenizer, examples, (0.0, 0.5, 2.0))
    assert sorted(measured.by_temperature) == [0.0, 0.5, 1.0, 2.0]
    assert measured.n == 3
    for temperature, accuracy in measured.by_temperature.items():
        alone = exact_accuracy(toy_model, toy_tokenizer, examples.prompts, examples.answers, temperature)
        assert accuracy == pytest.approx(alone, abs=1e-7)


def test_best_temperature_is_the_top_of_the_grid(two_sided_model, toy_tokenizer):
    # p(a) · p(eos) = w/(w+2)², w = 4^(1/T): highest at w = 2, which is T = 2; there it is 1/8.
    measured = held_out_accuracy(two_sided_model, toy_tokenizer, Examples(("b",), ("a",)), (0.5, 1.5, 2.0, 3.0))
    assert measured.best_temperature == 2.0
    assert measured.best == pytest.approx(1 / 8, rel=1e-6)


def test_names_of_the_numbers():
    measured = HeldOutAccuracy(n=10, by_temperature={0.0: 0.2, 1.0: 0.3, 0.5: 0.4, 2.0: 0.4})
    assert (measured.accuracy, measured.greedy, measured.best, measured.best_temperature) == (0.3, 0.2, 0.4, 0.5)
    assert measured.metrics() == {
        "heldout/accuracy": 0.3,
        "heldout/greedy_accuracy": 0.2,
        "heldout/best_temperature": 0.5,
        "heldout/best_temperature_accuracy": 0.4,
    }
