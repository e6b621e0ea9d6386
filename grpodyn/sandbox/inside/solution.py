"""The process that holds the model's code. It answers calls; whatever it answers is a value, never a verdict."""

from __future__ import annotations

import ast
import os
import sys
from typing import Any

from grpodyn.sandbox.inside.confine import confine
from grpodyn.sandbox.inside.wire import Lost, Unplain, decode, encode, receive, send

BRANCHES = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.With, ast.AsyncWith, ast.Assert)
ITEMS = 10_000


class Solution:
    """Serves the names that the code defines, and the objects that they return."""

    def __init__(self, requests: int, replies: int, limit: int) -> None:
        self.requests, self.replies, self.limit = requests, replies, limit
        self.objects: list[Any] = []

    def load(self, code: str) -> None:
        """Parse, tell how it looks, then run it. The first answer is sent before any foreign code has run."""
        try:
            tree = ast.parse(code)
            compiled = compile(tree, "<completion>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            send(self.replies, {"parses": False, "branches": 0, "why": type(error).__name__}, self.limit)
            return
        send(self.replies, {"parses": True, "branches": branches(tree)}, self.limit)
        space: dict[str, Any] = {"__name__": "completion", "__builtins__": __builtins__}
        try:
            exec(compiled, space)
        except BaseException as error:
            send(self.replies, {"loaded": False, "why": name_of(error)}, self.limit)
            return
        self.objects = [value for name, value in space.items() if not name.startswith("__")]
        names = [name for name in space if not name.startswith("__")]
        values = {name: self.carry(value, i) for i, (name, value) in enumerate(zip(names, self.objects, strict=True))}
        send(self.replies, {"loaded": True, "names": values}, self.limit)

    def carry(self, value: Any, known: int | None = None) -> Any:
        """Return a value for the wire: plain, or a handle to what stays here."""
        try:
            return encode(value)
        except Unplain:
            if known is None:
                known = len(self.objects)
                self.objects.append(value)
            return {"t": "remote", "v": known, "name": type(value).__name__}

    def serve(self) -> None:
        """Answer until the other end closes."""
        while True:
            try:
                request = receive(self.requests, self.limit)
            except Lost:
                return
            try:
                answer = self.answer(request)
            except BaseException as error:
                answer = {"error": name_of(error)}
            try:
                send(self.replies, answer, self.limit)
            except Lost:
                send(self.replies, {"error": "ValueError"}, self.limit)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do one operation on one object."""
        target = self.objects[request["on"]]
        operation = request["do"]
        if operation == "get":
            return {"value": self.carry(getattr(target, request["name"]))}
        if operation == "set":
            setattr(target, request["name"], decode(request["to"], self.local))
            return {"value": None}
        if operation == "items":
            items = []
            for item in target:
                items.append(self.carry(item))
                if len(items) > ITEMS:
                    raise ValueError
            return {"value": {"t": "list", "v": items}}
        args = [decode(arg, self.local) for arg in request["args"]]
        kwargs = {name: decode(arg, self.local) for name, arg in request["kwargs"].items()}
        value = target(*args, **kwargs)
        # Lists and the like that the call changed in place are sent back, as the caller's own would have changed.
        return {"value": self.carry(value), "args": [self.carry(arg) for arg in args]}

    def local(self, index: int, _name: str) -> Any:
        """Return the object that a handle stands for."""
        return self.objects[index]


def branches(tree: ast.AST) -> int:
    """Return McCabe's number: decision points plus one; `and`, `or` and comprehension conditions count as branches."""
    total = 1
    for node in ast.walk(tree):
        if isinstance(node, BRANCHES):
            total += 1
        elif isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            total += 1 + len(node.ifs)
        elif isinstance(node, ast.match_case):
            total += 1
    return total


def name_of(error: BaseException) -> str:
    """Return the name of the nearest builtin class of an error."""
    for kind in type(error).__mro__:
        if kind.__module__ == "builtins":
            return kind.__name__
    return "Exception"


def main() -> None:
    """Take the pipes over, load, serve."""
    settings = receive(0, 1 << 20)
    requests, replies = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    os.close(nowhere)
    confine(settings["limits"], settings["uid"])
    if settings.get("scratch"):
        os.chdir(settings["scratch"])
    limit = int(settings["limits"]["message_bytes"])
    sys.argv = ["completion"]
    solution = Solution(requests, replies, limit)
    try:
        solution.load(receive(requests, limit)["code"])
        solution.serve()
    finally:
        os._exit(0)
