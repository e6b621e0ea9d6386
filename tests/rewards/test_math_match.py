from __future__ import annotations

import pytest

from grpodyn.rewards.math_match import math_match

pytest.importorskip("math_verify")

# (what is said, what is right): that they are equal was decided by reading them.
EQUAL = [
    ("2x", "2x"), ("x=3", "3"), ("12 apples", "12"), ("3 dollars", "3"), ("5 cm", "5"), ("5", "5 cm"),
    ("5 million", "5000000"), (r"\boxed{\frac{2}{4}}", "0.5"), ("90°", "90"), ("50%", "0.5"),
]  # fmt: skip
UNEQUAL = [("2y", "2x"), ("2", "2x"), ("2x", "2"), ("12 apples", "12 oranges"), ("3", "3xy"), ("6 dollars", "3")]


def test_a_number_before_a_variable_is_not_that_number() -> None:
    said, right = zip(*EQUAL, *UNEQUAL, strict=True)
    given = math_match([""] * len(said), said, answer=right)
    assert given == [1.0] * len(EQUAL) + [0.0] * len(UNEQUAL)
