"""Tokens, keys and passwords are not written into a run: its directory is handed around."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

WITHHELD = "(withheld)"

# A tokenizer's `eos_token` and a model's `num_key_value_heads` are no secrets: whole words, and whose token it is.
_NAMES = re.compile(
    r"(?i)(^|_)("
    r"((hub|hf|hugging_?face|wandb|github|gh|auth|access|api|bearer|secret|session|refresh|security|id)_?)+token"
    r"|(api|access|secret|private|account|encryption|license)_?key"
    r"|password|passwd|passphrase|secret|secrets|credential|credentials|authorization"
    r")$|^(token|key|apikey|use_auth_token|auth)$"
)
# What the services give out is known by its beginning.
_VALUES = re.compile(
    r"\b(hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{12,}|xox[abp]-[\w-]{10,})"
)


def without_secrets(value: Any) -> Any:
    """Return a copy of nested mappings and lists in which secrets stand as `(withheld)`, found by name or by form.

    >>> without_secrets({"hub_token": "x", "eos_token": "<eos>", "nested": [{"password": "y"}], "key": None})
    {'hub_token': '(withheld)', 'eos_token': '<eos>', 'nested': [{'password': '(withheld)'}], 'key': None}
    """
    if isinstance(value, Mapping):
        return {name: WITHHELD if _is_secret(name, inner) else without_secrets(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(inner) for inner in value]
    return _VALUES.sub(WITHHELD, value) if isinstance(value, str) else value


def _is_secret(name: Any, value: Any) -> bool:
    # A flag (`use_auth_token: true`) tells nothing, nor does what is not set.
    return isinstance(name, str) and _NAMES.search(name) is not None and isinstance(value, str | bytes) and bool(value)
