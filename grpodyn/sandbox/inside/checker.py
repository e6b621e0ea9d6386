"""The process that holds the tests. It never runs the model's code: what the code defines is reached through a pipe."""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from grpodyn.sandbox.inside.confine import confine
from grpodyn.sandbox.inside.wire import Lost, decode, encode, receive, send


class Remote:
    """Stands for an object that stays in the process of the model's code."""

    __slots__ = ("_call", "_index", "_name")

    def __init__(self, call: Callable[[dict[str, Any]], dict[str, Any]], index: Any, name: str) -> None:
        self._call, self._index, self._name = call, index, name

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
        space.update({name: decode(value, self.remote) for name, value in self.names.items()})
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
