"""The process that holds the tests. It never runs the model's code: what the code defines is reached through a pipe."""

from __future__ import annotations

import ast
import builtins
import importlib
import os
import sys
from collections.abc import Callable, Collection, Iterator
from typing import Any

from grpodyn.sandbox.inside.confine import confine
from grpodyn.sandbox.inside.wire import Lost, decode, encode, receive, send

COMPARING = ("cmath", "collections", "itertools", "math", "re", "statistics")
"""Modules that tests compare with, and often leave it to the program to import."""


class Remote:
    """Stands for an object that stays in the process of the model's code."""

    __slots__ = ("_call", "_index", "_name")

    def __init__(self, call: Callable[[dict[str, Any]], dict[str, Any]], index: Any, name: str) -> None:
        for slot, value in (("_call", call), ("_index", index), ("_name", name)):
            object.__setattr__(self, slot, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Have it called over there."""
        named = {name: carry(value) for name, value in kwargs.items()}
        answer = self._call({"on": self._index, "do": "call", "args": [carry(arg) for arg in args], "kwargs": named})
        changed = [decode(arg, self._remote) for arg in answer.get("args", ())]
        if len(changed) == len(args):
            for mine, theirs in zip(args, changed, strict=True):
                change_in_place(mine, theirs)
        return decode(answer["value"], self._remote)

    def __getattr__(self, name: str) -> Any:
        return decode(self._call({"on": self._index, "do": "get", "name": name})["value"], self._remote)

    def __setattr__(self, name: str, value: Any) -> None:
        self._call({"on": self._index, "do": "set", "name": name, "to": carry(value)})

    def __iter__(self) -> Iterator[Any]:
        return iter(decode(self._call({"on": self._index, "do": "items"})["value"], self._remote))

    # An object may call itself equal to anything: only plain values are compared, and here.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Remote) and other._index == self._index

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise TypeError(f"a {self._name} is no plain value: its truth is not asked for")

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __repr__(self) -> str:
        return f"<{self._name} of the program>"

    def _remote(self, index: Any, name: str) -> Remote:
        return Remote(self._call, index, name)


def lent(names: Collection[str], setup: str, test: str) -> list[str]:
    """Return which of the program's names a test gets to see.

    A program may call a function `abs` or `sorted` as it likes, but a test that compares with one of these means
    Python's own. Only where a test asks for nothing but builtins, as in `assert sum(10, 15) == 6`, they are the
    program's. What begins with two underscores, such as `__builtins__`, is never taken from a program.
    """
    asked, bound = _names_in(test)
    free = asked - bound - _names_in(setup)[1]
    builtin = {name for name in asked if hasattr(builtins, name)}
    own = builtin if free <= builtin else set()
    return [name for name in names if not name.startswith("__") and (name in own or not hasattr(builtins, name))]


def meant_modules(names: Collection[str], test: str) -> list[str]:
    """Return the modules that a test takes from a program and may as well have from Python, as in `math.isclose`."""
    try:
        nodes = list(ast.walk(ast.parse(test)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    used = {node.value.id for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)}
    return [name for name in COMPARING if name in names and name in used]


def _names_in(source: str) -> tuple[set[str], set[str]]:
    """Return the names that a source reads, and those that it binds itself."""
    asked: set[str] = set()
    bound: set[str] = set()
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # said by whoever compiles it
        return asked, bound
    for node in nodes:
        if isinstance(node, ast.Name):
            (asked if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
    return asked, bound


def carry(value: Any) -> Any:
    """Return an argument for the wire."""
    if isinstance(value, Remote):
        return {"t": "remote", "v": value._index}
    return encode(value)


def change_in_place(mine: Any, theirs: Any) -> None:
    """Give a mutable argument the content that the call left it with."""
    if type(mine) is not type(theirs):
        return
    if isinstance(mine, list | bytearray):
        mine[:] = theirs
    elif isinstance(mine, dict | set):
        mine.clear()
        mine.update(theirs)


class Checker:
    """Runs tests against names that are answered elsewhere."""

    def __init__(self, requests: int, replies: int, limit: int) -> None:
        self.requests, self.replies, self.limit = requests, replies, limit
        self.names: dict[str, Any] = {}

    def call(self, request: dict[str, Any]) -> dict[str, Any]:
        """Ask the program; raise what it raised, as far as that is a builtin error."""
        send(self.replies, {"ask": request}, self.limit)
        answer: dict[str, Any] = receive(self.requests, self.limit)
        if "error" in answer:
            kind = getattr(builtins, str(answer["error"]), None)
            # An exit of the program must not end the tests, and a failed `assert` of its own is no test.
            fit = isinstance(kind, type) and issubclass(kind, Exception) and kind is not AssertionError
            if isinstance(kind, type) and fit:
                raise kind()
            raise RuntimeError(f"the program raised {str(answer['error'])[:60]}")
        return answer

    def run(self, setup: str, test: str) -> str | None:
        """Return None if the test passes, else why not."""
        space: dict[str, Any] = {"__name__": "tests", "__builtins__": builtins}
        for name in lent(self.names, setup, test):
            space[name] = decode(self.names[name], self.remote)
        for name in meant_modules(self.names, test):
            space[name] = importlib.import_module(name)
        try:
            exec(compile(setup, "<setup>", "exec", dont_inherit=True), space)
            exec(compile(test, "<test>", "exec", dont_inherit=True), space)
        except Lost:
            raise
        except BaseException as error:
            text = str(error)
            return type(error).__name__ + (f": {text[:200]}" if text else "")
        return None

    def remote(self, index: Any, name: str) -> Remote:
        """Return a stand-in."""
        return Remote(self.call, index, name)


def main() -> None:
    """Take the pipes over and run what is asked for."""
    settings = receive(0, 1 << 24)
    requests, replies = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    os.close(nowhere)
    confine(settings["limits"], settings["uid"])
    if settings.get("scratch"):
        os.chdir(settings["scratch"])
    sys.argv = ["tests"]
    checker = Checker(requests, replies, int(settings["limits"]["message_bytes"]))
    try:
        while True:
            order = receive(requests, checker.limit)
            if "names" in order:
                checker.names = order["names"]
                continue
            why = checker.run(order["setup"], order["test"])
            send(replies, {"done": True, "why": why}, checker.limit)
    except Lost:
        os._exit(0)
