from __future__ import annotations

import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpodyn.rewards.numbers import number, numbers_in
from grpodyn.rewards.numeric_match import numeric_match

# Written by hand: what people write, and the number that it is.
WRITTEN = {
    "12": 12,
    "-12": -12,
    "−12": -12,  # U+2212
    "+5": 5,
    "1,234": 1234,
    "1,234,567.50": Fraction(246913500, 200),
    "12,34,567": 1234567,  # as in India
    "1\u00a0234": 1234,
    "1\u202f234": 1234,
    "1'234": 1234,
    r"1{,}234": 1234,
    r"1\,234": 1234,
    "０１２３": 123,
    "٤٢": 42,
    "४२": 42,
    "3/4": Fraction(3, 4),
    "-3/4": Fraction(-3, 4),
    "1 3/4": Fraction(7, 4),
    "-1 3/4": Fraction(-7, 4),
    "½": Fraction(1, 2),
    "2½": Fraction(5, 2),
    r"\frac{3}{4}": Fraction(3, 4),
    r"1\frac{3}{4}": Fraction(7, 4),
    r"-\dfrac{3}{4}": Fraction(-3, 4),
    r"\frac12": Fraction(1, 2),
    "0.5": Fraction(1, 2),
    ".5": Fraction(1, 2),
    "1e3": 1000,
    "1.5E-2": Fraction(3, 200),
    r"1.5 \times 10^{3}": 1500,
    "2×10^-2": Fraction(1, 50),
    "$18": 18,
    "-$18.00": -18,
    "$-18": -18,
    r"\$18": 18,
    "18 €": 18,
    "5 million": 5_000_000,
    "$1.5 Billion": 1_500_000_000,
    r"3 \text{ thousand}": 3000,
    "-2 hundred km": -200,
    "4 millionaires": 4,
    "50%": 50,
    r"50\%": 50,
    "12 apples": 12,
    r"12 \text{ km}": 12,
    "x = 7": 7,
    "$7$": 7,
    r"\(7\)": 7,
    "**7**": 7,
    "(7)": 7,
    "7.": 7,
}


@pytest.mark.parametrize(("text", "value"), WRITTEN.items())
def test_what_people_write(text: str, value: Fraction | int) -> None:
    assert number(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "-", ".", "twelve", "5 or 7", "2+3", "5-3", "1,23", "1,2345", "1/0", "1 1/0", r"\sqrt{2}", "5^2",
        "--5", "-$-5", "1.2.3", "1e999999999", "1e-999999999", "9" * 401, "NaN", "inf", "10²", "()", "((((", "$", "$$",
    ],
)  # fmt: skip
def test_what_is_no_number(text: str) -> None:
    assert number(text) is None


@settings(deadline=None)
@given(st.integers(-(10**12), 10**12))
def test_separators_and_scripts_change_nothing(value: int) -> None:
    written = {f"{value}", f"{value:,}", f"{value:,}.0", f"{value:,}".replace(",", "\u202f"), f"${value:,}"}
    eastern = str(value).translate({ord("0") + d: chr(0x0660 + d) for d in range(10)})
    assert {number(text) for text in (*written, eastern, str(value).replace("-", "−"))} == {value}
    assert number(str(value + 1)) != number(str(value))


@settings(deadline=None)
@given(st.fractions(max_denominator=10**6))
def test_fractions_are_exact(value: Fraction) -> None:
    assert number(str(value)) == value
    assert number(rf"{'-' if value < 0 else ''}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}") == value


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    assert number(text) is None or isinstance(number(text), Fraction)
    assert all(isinstance(value, Fraction) for value in numbers_in(text))


def test_numbers_of_a_text_in_their_order() -> None:
    assert numbers_in("So 48/2 = 24, and 48+24=72. It is 1,072.50!") == [24, 24, 48, 24, 72, Fraction("1072.5")]
    assert numbers_in("from -5 to 5-2") == [-5, 5, 2]
    assert numbers_in("nothing") == []
    assert numbers_in("2 thousand of 3 million") == [2000, 3_000_000]


def test_a_tolerance_is_what_was_written():
    assert numeric_match([""] * 3, ["1.3", "0.7", "1.31"], answer=["1"] * 3, tolerance=0.3) == [1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    "text", ["9" * 50_000, "1," * 25_000, "1/" * 25_000, "\\frac{" * 9_000, "1e" * 25_000, "-" * 50_000]
)
def test_no_text_takes_long(text: str) -> None:
    start = time.process_time()
    number(text)
    numbers_in(text)
    assert time.process_time() - start < 2
