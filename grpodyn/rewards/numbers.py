r"""Reads numbers as people and models write them, exactly.

Digits of every script, thousands separators, currency signs, percent signs and units, fractions, mixed numbers,
scientific notation, and the little LaTeX that stands around numbers. A number is a `Fraction`: nothing is rounded, so
neighbours stay apart however large they are.
"""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction
from typing import Final

MOST_CHARACTERS: Final = 400
"""Of one number, and its largest exponent: a model that writes 1e999999999 must not cost the memory of that number."""

_MINUS = "−–﹣－‐‑"
_THIN = "\u00a0\u2009\u202f\u2007"
_SAME: Final = str.maketrans(
    {
        **dict.fromkeys(_MINUS, "-"),
        **dict.fromkeys(_THIN, "\u202f"),
        "，": ",",
        "．": ".",
        "٫": ".",
        "٬": ",",
        "’": "'",
        "⁄": "/",
        "＋": "+",
        "％": "%",
        "＄": "$",
    }
)
_LATEX: Final = (
    (re.compile(r"(?<=\d)(?=\\[dtc]?frac)"), " "),  # 1\frac{1}{2} is a mixed number
    (re.compile(r"\\[dtc]?frac\s*\{([^{}]{1,400})\}\s*\{([^{}]{1,400})\}"), r"\1/\2 "),
    (re.compile(r"\\[dtc]?frac\s*(\d)\s*(\d)"), r"\1/\2 "),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"(?<=\d)\\[,;:! ](?=\d{3})"), "\u202f"),
    (re.compile(r"\\[,;:! ]"), " "),
    (re.compile(r"\\(?:text|mathrm|textbf|mathbf|operatorname)\s*\{([^{}]{0,400})\}"), r" \1 "),
    (re.compile(r"\\([%$€£])"), r"\1"),
    (re.compile(r"\\[()\[\]]"), " "),  # inline and displayed mathematics
    (re.compile(r"\\(?:left|right|displaystyle)\b"), ""),
    (
        re.compile(r"(?<=\d)\s{0,4}(?:\\times|\\cdot|×|·|\*)\s{0,4}10\s{0,4}(?:\^|\*\*)\s{0,4}\{?\s{0,4}([-+]?\d+)\}?"),
        r"e\1",
    ),
)

_WHOLE = r"(?:\d{1,3}(?:,\d{3})+|\d{1,3}(?:,\d{2})+,\d{3}|\d{1,3}(?:\u202f\d{3})+|\d{1,3}(?:'\d{3})+|\d+)(?![\d])"
_PLAIN = rf"(?:{_WHOLE}(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?"
_UNSIGNED = (
    rf"(?:(?P<mixed>\d+)\s+(?P<over>\d+)\s?/\s?(?P<under>\d+)|(?P<top>{_PLAIN})(?:\s?/\s?(?P<bottom>{_PLAIN}))?)"
)
_CURRENCY = r"[$€£¥]"
_SCALES: Final = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SCALE = rf"(?:\s{{0,4}}(?P<scale>(?i:{'|'.join(_SCALES)}))s?\b)?"
_NUMBER = rf"(?P<sign>[-+])?(?:{_CURRENCY}\s?)?(?P<inner>[-+])?{_UNSIGNED}{_SCALE}"
_FOUND = re.compile(rf"(?<![\w.,/]){_NUMBER}(?![\d])")
_NAME = r"(?:[A-Za-z]\w{0,20}\s*=\s*)?"
_UNIT = r"(?P<unit>\s?(?:%|°|[€£¥])|\s*[^\W\d_⁰¹²³⁴-⁹](?:[^\W\d_]|[°/.\- ]){0,60})?"
_ALONE = re.compile(rf"{_NAME}{_NUMBER}{_UNIT}\s*")


def number(text: str) -> Fraction | None:
    r"""Return the number that a text is, or None if it is anything else: an expression, two numbers, or words.

    A currency sign, a percent sign, a unit after it and `x =` before it are passed over: `50%` is 50.

    >>> [str(number(text)) for text in ("1,234", "-7", "3/4", "1.5e3", "$18.00", "x = 12 km", "２３", "2 million")]
    ['1234', '-7', '3/4', '1500', '18', '12', '23', '2000000']
    >>> [number(text) for text in ("", "5 or 7", "2+3", "1,23", "1/0", "12 (or 13)", r"\\sqrt{2}")]
    [None, None, None, None, None, None, None]
    """
    found = measured(text)
    return None if found is None else found[0]


def measured(text: str) -> tuple[Fraction, str] | None:
    """Return the number that a text is, and what stands behind it: a unit, if it is none of an expression's letters.

    >>> measured("12 km"), measured("2x"), measured("7"), measured("2+3")
    ((Fraction(12, 1), ' km'), (Fraction(2, 1), 'x'), (Fraction(7, 1), ''), None)
    """
    cleaned = _cleaned(text).strip(" \t\r\n*_`\"'").removesuffix(".")
    if cleaned.startswith("$") and cleaned.endswith("$"):  # inline mathematics
        cleaned = cleaned.strip("$")
    while cleaned[:1] in {"(", "[", "{"} and cleaned[-1:] == {"(": ")", "[": "]", "{": "}"}[cleaned[0]]:
        cleaned = cleaned[1:-1]
    if len(cleaned) > MOST_CHARACTERS:
        return None
    found = _ALONE.fullmatch(cleaned.strip())
    value = None if found is None else _value(found)
    return None if found is None or value is None else (value, (found["unit"] or "").rstrip())


def numbers_in(text: str) -> list[Fraction]:
    """Return the numbers that stand in a text, in their order. A minus between two numbers subtracts.

    >>> [str(n) for n in numbers_in("From 5-3=2 follows -2.5, that is, 1,000 times 1/4.")]
    ['5', '3', '2', '-5/2', '1000', '1/4']
    """
    spaced = re.sub(r"(?<=[\d)])-(?=[\d(])", " - ", _cleaned(text))
    found = re.sub(r"(?<=[=<>:+*(])(?=[-\d.])", " ", spaced)
    values = (_value(match) for match in _FOUND.finditer(found) if len(match.group()) <= MOST_CHARACTERS)
    return [value for value in values if value is not None]


def _cleaned(text: str) -> str:
    plain = "".join(_plain(character) for character in text).translate(_SAME)
    if "\\" in plain or "10" in plain or "{" in plain:
        for pattern, instead in _LATEX:
            plain = pattern.sub(instead, plain)
    return plain


def _plain(character: str) -> str:
    if character.isascii():
        return character
    digit = unicodedata.decimal(character, None)
    if digit is not None:
        return str(digit)
    if unicodedata.category(character) == "No" and "⁄" in unicodedata.normalize("NFKC", character):
        return f" {unicodedata.normalize('NFKC', character)} "  # ½
    return character


def _value(match: re.Match[str]) -> Fraction | None:
    groups = match.groupdict()
    if groups["sign"] and groups["inner"]:
        return None
    sign = (-1 if "-" in (groups["sign"], groups["inner"]) else 1) * _SCALES.get((groups["scale"] or "").lower(), 1)
    if groups["mixed"]:
        under = int(groups["under"])
        return None if under == 0 else sign * (int(groups["mixed"]) + Fraction(int(groups["over"]), under))
    top = _exact(groups["top"])
    bottom = _exact(groups["bottom"] or "1")
    return None if top is None or not bottom else sign * top / bottom


def _exact(digits: str) -> Fraction | None:
    plain = re.sub(r"[,'\u202f]", "", digits).lower()
    exponent = plain.partition("e")[2]
    if exponent and (len(exponent) > len(str(MOST_CHARACTERS)) + 1 or abs(int(exponent)) > MOST_CHARACTERS):
        return None
    return Fraction(plain)
