from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpodyn.config import yaml_text
from grpodyn.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3e-4", 3e-4),
        ("1E6", 1e6),
        ("-2e+3", -2000.0),
        ("1.5e-5", 1.5e-5),
        (".5e1", 5.0),
        ("3", 3),
        ("e5", "e5"),
        ("1e", "1e"),
    ],
)
def test_numbers_are_read_as_people_write_them(text: str, value: object) -> None:
    read = yaml_text.parse(text, "test")
    assert read == value
    assert type(read) is type(value)


def test_a_repeated_key_is_refused_with_its_line() -> None:
    with pytest.raises(ConfigError, match=r"a\.yaml.*'seed' is written twice, again in line 3"):
        yaml_text.parse("seed: 1\nmodel: x\nseed: 2\n", "a.yaml")


def test_an_equal_key_in_another_mapping_is_no_repetition() -> None:
    assert yaml_text.parse("a: {k: 1}\nb: {k: 2}", "test") == {"a": {"k": 1}, "b": {"k": 2}}


def test_a_yaml_tag_builds_no_python_object() -> None:
    with pytest.raises(ConfigError, match="not readable YAML"):
        yaml_text.parse("!!python/object/apply:os.getcwd []", "test")


def test_reading_says_what_is_wrong_with_the_file(tmp_path) -> None:
    with pytest.raises(ConfigError, match="there is no config file"):
        yaml_text.read(tmp_path / "absent.yaml")
    listing = tmp_path / "list.yaml"
    listing.write_text("- a\n")
    with pytest.raises(ConfigError, match="holds a list, expected a mapping"):
        yaml_text.read(listing)
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read"):
        yaml_text.read(binary)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(values)
def test_dump_and_parse_are_inverse(value: object) -> None:
    assert yaml_text.parse(yaml_text.dump(value), "test") == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 2001-99-99", "month must be"),
        ('a: !!int "x"', "invalid literal"),
        ("[" * 3000, "nested too deeply"),
        ("&a [*a]", "inside itself"),
        ("a: &a {b: *a}", "inside itself"),
        (
            "\n".join(f"x{i}: &x{i} [{', '.join([f'*x{i - 1}' if i else '0'] * 9)}]" for i in range(9)),
            "more than 100,000",
        ),
    ],
    ids=["date", "int", "deep", "list in itself", "mapping in itself", "bomb"],
)
def test_what_the_loader_lets_through_is_a_config_error_too(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        yaml_text.parse(text, "here")


def test_what_an_anchor_names_twice_can_be_changed_alone() -> None:
    value = yaml_text.parse("a: &x {r: 8}\nb: *x", "here")
    value["a"]["r"] = 16
    assert value["b"] == {"r": 8}
