"""The exception tree and its exit codes."""

import inspect

from grpodyn import errors


def test_every_error_is_drawn_in_the_tree_at_the_top_of_the_file() -> None:
    names = [n for n, c in vars(errors).items() if inspect.isclass(c) and issubclass(c, Exception)]
    assert len(names) > 8
    assert [n for n in names if n not in (errors.__doc__ or "")] == []


def test_exit_codes_tell_usage_from_unreadable() -> None:
    assert errors.ConfigError("x").exit_code == 2
    assert errors.DirectoryInUseError("x").exit_code == 2
    assert errors.NotARunError("x").exit_code == 3
    assert errors.SchemaError("x").exit_code == 3


def test_unknown_name_suggests_the_closest() -> None:
    message = str(errors.UnknownNameError.among("probe", "grad_nrom", ["grad_norm", "delta_norm"]))
    assert "'grad_nrom'" in message
    assert "did you mean 'grad_norm'" in message
    assert "delta_norm" in message


def test_unknown_name_far_from_all_only_lists_them() -> None:
    assert "did you mean" not in str(errors.UnknownNameError.among("probe", "zzz", ["grad_norm"]))
