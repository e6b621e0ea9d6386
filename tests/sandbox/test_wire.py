import math
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpodyn.sandbox.inside.wire import Lost, Unplain, decode, encode, receive, send

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers(), inner)
        | st.sets(st.integers())
        | st.frozensets(st.text())
    ),
    max_leaves=12,
)


@given(PLAIN)
def test_plain_values_come_back(value):
    reader, writer = os.pipe()
    try:
        send(writer, {"value": encode(value)}, 1 << 20)
        back = decode(receive(reader, 1 << 20)["value"])
    finally:
        os.close(reader)
        os.close(writer)
    assert type(back) is type(value)
    assert back == value


@pytest.mark.parametrize("base", [int, float, str, list, tuple, dict, set, bytes])
def test_subclasses_arrive_as_their_builtin(base):
    forged = type("Forged", (base,), {"__eq__": lambda *_: True, "__hash__": lambda _: 0})()
    assert type(decode(encode(forged))) is base


def test_what_is_no_value_is_refused():
    with pytest.raises(Unplain):
        encode(object())
    cyclic: list = []
    cyclic.append(cyclic)
    with pytest.raises(Unplain, match="deeper"):
        encode(cyclic)
    assert math.isnan(decode(encode(math.nan)))


def test_too_long_torn_and_foreign_frames_are_lost():
    for sent, why in [
        (b"\x7f\xff\xff\xff", "over the limit"),
        (b"\x00\x00\x00\x09half", "ended early"),
        (b"\x00\x00\x00\x02{]", "no JSON"),
        (b"\x00\x00\xc3\x50" + b"[" * 50000, "no JSON"),
    ]:
        reader, writer = os.pipe()
        os.write(writer, sent)
        os.close(writer)
        with pytest.raises(Lost, match=why):
            receive(reader, 1 << 20)
        os.close(reader)
