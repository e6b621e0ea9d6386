"""Rewards for programs: whether the text is Python, how many tests it passes, how tangled it is.

Nothing of a completion runs in this process: see `grpodyn.sandbox`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal

from grpodyn.errors import ConfigError
from grpodyn.rewards.answers import marked_answers
from grpodyn.rewards.completion import Completion
from grpodyn.rewards.thinking import answer_part
from grpodyn.sandbox import Outcome, Program, SandboxPool, StdioCase

FENCED = re.compile(r"^[ \t]*(`{3,})[ \t]*([^\s`]*)[^\n`]*\n(.*?)^[ \t]*\1", re.DOTALL | re.MULTILINE)
PYTHON = ("", "python", "python3", "py")
"""What may stand behind the fence of a program, in lower case."""
SIMPLE, TANGLED = 10, 30
"""McCabe's own bound for a function is 10; a whole program of three such functions is where the reward ends."""


Which = Literal["last", "first", "only"]
"""Which fenced block is the program; `only` takes none where there are several."""


def code_of(completion: Completion, prompt: Any = "", block: Which = "last", opened: bool = False) -> str:
    r"""Return the fenced block of Python in a completion's answer, else what it tags as its answer, else all of it.

    Args:
        completion: text or messages; what is inside the thinking is passed over.
        prompt: whose end may open the thinking.
        block: which one, where there are several.
        opened: whether the chat template opens the thinking.

    >>> code_of("First try:\n```python\nx = 1\n```\nBetter:\n```python\nx = 2\n```\nDone.")
    'x = 2\n'
    >>> code_of("x = 3"), code_of("<reasoning>3</reasoning><answer>x = 3</answer>")
    ('x = 3', 'x = 3')
    """
    text = answer_part(completion, prompt, opened)
    # Blocks of other languages are matched too: the fence that ends one would begin the next.
    fenced = [inside for _, language, inside in FENCED.findall(text) if language.lower() in PYTHON]
    blocks = fenced or marked_answers(text, ("answer_tag",))
    if len(blocks) > 1 and block == "only":
        return ""
    return str(blocks[0 if block == "first" else -1]) if blocks else text


def code_syntax(
    prompts: Sequence[Any],
    completions: Sequence[Completion],
    *,
    block: Which = "last",
    opened: bool = False,
    **columns: Any,
) -> list[float]:
    """Return 1.0 for each completion whose code parses as Python, else 0.0. An empty program earns nothing."""
    return [float(outcome.parses) for outcome in _outcomes(prompts, completions, (block, opened), columns)]


def code_tests(
    prompts: Sequence[Any],
    completions: Sequence[Completion],
    *,
    block: Which = "last",
    opened: bool = False,
    **columns: Any,
) -> list[float]:
    """Return 1.0 for each completion whose code passes every test, else 0.0.

    The dataset's columns: `tests` (a list of statements such as `assert f(1) == 2`) or `cases` (a list of
    `{"input": …, "output": …}` for programs that read and print), and optionally `setup`.

    Raises:
        ConfigError: an example without tests, or no walls can be built on this machine.
    """
    return [
        float(outcome.all_passed)
        for outcome in _outcomes(prompts, completions, (block, opened), columns, needs_tests=True)
    ]


def code_tests_fraction(
    prompts: Sequence[Any],
    completions: Sequence[Completion],
    *,
    block: Which = "last",
    opened: bool = False,
    **columns: Any,
) -> list[float]:
    """Return the share of its tests that each completion's code passes; columns and errors as `code_tests`."""
    judged = _outcomes(prompts, completions, (block, opened), columns, needs_tests=True)
    return [outcome.passed / len(outcome.results) for outcome in judged]


def code_complexity(
    prompts: Sequence[Any],
    completions: Sequence[Completion],
    *,
    block: Which = "last",
    opened: bool = False,
    **columns: Any,
) -> list[float]:
    """Return 1.0 for simple code, falling linearly from McCabe number 10 to 0.0 at 30; 0.0 for what does not parse.

    Reference: T. J. McCabe, A Complexity Measure, IEEE Trans. Software Eng. 2(4), 1976; the bound of 10 is his.
    """
    return [_simplicity(outcome) for outcome in _outcomes(prompts, completions, (block, opened), columns)]


def _simplicity(outcome: Outcome) -> float:
    if not outcome.parses:
        return 0.0
    return min(1.0, max(0.0, (TANGLED - outcome.branches) / (TANGLED - SIMPLE)))


def _outcomes(
    prompts: Sequence[Any],
    completions: Sequence[Completion],
    reading: tuple[Which, bool],
    columns: dict[str, Any],
    needs_tests: bool = False,
) -> list[Outcome]:
    """Judge each completion once, also where several of these rewards ask for it one after another."""
    count = len(completions)
    tests, cases = columns.get("tests") or [None] * count, columns.get("cases") or [None] * count
    setups = columns.get("setup") or [None] * count
    programs = [
        _program(code_of(completion, prompts[i], *reading), tests[i], cases[i], setups[i], needs_tests)
        for i, completion in enumerate(completions)
    ]
    known = _Judged.last
    new = [program for program in dict.fromkeys(programs) if program not in known]
    if new:
        known = known | dict(zip(new, _pool().judge(new), strict=True))
    _Judged.last = {program: known[program] for program in programs}
    return [_blank(program) or known[program] for program in programs]


class _Judged:
    """The last batch: the rewards of one batch are called one after another, each on the same completions."""

    last: dict[Program, Outcome] = {}  # noqa: RUF012  # replaced as a whole, never changed


def _blank(program: Program) -> Outcome | None:
    """Return the outcome of an empty program, which parses and yet is nothing."""
    return None if program.code.strip() else Outcome(False, 0, _judged_as_failed(program))


def _judged_as_failed(program: Program) -> Any:
    from grpodyn.sandbox import TestResult  # noqa: PLC0415

    return (TestResult(False, "empty"),) * (len(program.tests) + len(program.cases))


def _program(code: str, tests: Any, cases: Any, setup: Any, needs_tests: bool) -> Program:
    if not tests and not cases:
        if needs_tests:
            raise ConfigError(
                "an example has neither `tests` nor `cases`, so its code cannot be judged; map the dataset's column "
                "onto `tests` (statements such as 'assert f(1) == 2') or `cases` ([{'input': …, 'output': …}])"
            )
        tests = ("None",)  # read for its syntax alone
    # A text is one test: its characters are none.
    statements = (tests,) if isinstance(tests, str) else tests or ()
    return Program(code, tuple(map(str, statements)), str(setup or ""), tuple(_case(case) for case in cases or ()))


def _case(case: Any) -> StdioCase:
    if not isinstance(case, Mapping) or not {"input", "output"} <= set(case):
        raise ConfigError(f"a case is {str(case)[:80]!r}, expected a mapping of `input` and `output`")
    return StdioCase(str(case["input"]), str(case["output"]))


@cache
def _pool() -> SandboxPool:
    return SandboxPool()
