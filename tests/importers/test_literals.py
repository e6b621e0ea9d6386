"""Printed dicts are read without being evaluated."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpodyn.importers.literals import parse, parse_at

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(10**15), max_value=10**15)
    | st.floats(allow_nan=False)
    | st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="\\'\""), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(alphabet="abcdefghij/_ ", min_size=1, max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(PLAIN)
def test_what_python_prints_reads_back(value: object) -> None:
    assert parse(repr(value)) == value


def test_dict_of_a_trainer() -> None:
    line = (
        "{'loss': 0.0, 'grad_norm': nan, 'kl': -inf, 'reward': np.float64(0.25), 'lr': tensor(1e-06, device='cuda:0')}"
    )
    found = parse(line)
    assert math.isnan(found.pop("grad_norm"))
    assert found == {"loss": 0.0, "kl": -math.inf, "reward": 0.25, "lr": 1e-6}


def test_json_with_bare_nan() -> None:
    assert math.isnan(parse('{"grad_norm": NaN}')["grad_norm"])


def test_tuples_are_lists_and_the_rest_of_a_line_is_left() -> None:
    value, end = parse_at("x {'a': (1, 2)} y", 2)
    assert value == {"a": [1, 2]}
    assert end == len("x {'a': (1, 2)}")


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "{'a': open('/etc/passwd')}",
        "[x for x in ()]",
        "{'a': 1",
        "1 + 1",
        "lambda: 0",
        "{'a' 1}",
        "",
        "[" * 200,
    ],
)
def test_what_is_no_literal_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(text)
