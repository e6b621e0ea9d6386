"""Programming tasks: a description, and tests that the program must pass."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from grpodyn.config.validation import StrictModel
from grpodyn.tasks.rows import DatasetTask, Row
from grpodyn.tasks.source import Source


class ProgramOptions(StrictModel):
    """Columns of the data set."""

    prompt: str = "prompt"
    tests: str = "tests"
    """A list of statements such as `assert f(1) == 2`, or one text with a statement a line."""
    setup: str | None = None
    """Statements that run before the tests; text or a list."""
    solution: str | None = None
    """A program that is right; handed on as `answer`."""
    show_tests: int = Field(default=1, ge=0)
    """How many of the tests the prompt shows: without one, nobody knows what the function is called."""


class MbppOptions(ProgramOptions):
    """The columns of MBPP in full; in its sanitized subset, the first is `prompt` and the third `test_imports`."""

    prompt: str = "text"
    tests: str = "test_list"
    setup: str | None = "test_setup_code"
    solution: str | None = "code"


class OpenCoderOptions(ProgramOptions):
    """The columns of OpenCoder's educational instructions."""

    prompt: str = "instruction"
    tests: str = "testcase"
    solution: str | None = "code"


class Programs(DatasetTask):
    """The prompt is the description and some tests; `tests` and `setup` are what `code_tests` judges by."""

    name = "programs"
    options_type = ProgramOptions
    template = "{prompt}\nWrite the Python code in one block fenced by ```python and ```."

    def convert(self, row: Row) -> dict[str, Any]:
        """Return description with tests, all tests, setup and a solution."""
        asked = self.text(row, self.options.prompt, "prompt").strip()
        tests = _statements(self.column(row, self.options.tests, "tests"))
        if not tests:
            raise ValueError(f"it has no test in {self.options.tests!r}, so no program can be judged")
        shown = tests[: self.options.show_tests]
        if shown:
            asked = "\n".join([asked, "The code must pass tests such as:", *shown])
        setup = self.options.setup and self.column(row, self.options.setup, "setup")
        solution = self.options.solution and self.column(row, self.options.solution, "solution")
        return {
            "prompt": asked,
            "answer": str(solution or ""),
            "tests": tests,
            "setup": "\n".join(_statements(setup)),
        }


class Mbpp(Programs):
    """Mostly Basic Python Problems. Reference: Austin et al., arXiv:2108.07732."""

    name = "mbpp"
    home = Source("google-research-datasets/mbpp", "full")
    options_type = MbppOptions


class OpenCoder(Programs):
    """OpenCoder's educational instructions. Reference: Huang et al., arXiv:2411.04905."""

    name = "opencoder"
    home = Source("OpenCoder-LLM/opc-sft-stage2", "educational_instruct")
    options_type = OpenCoderOptions


def _statements(value: Any) -> list[str]:
    if value is None:
        return []
    lines = [value] if isinstance(value, str) else [str(statement) for statement in value]
    if len(lines) == 1 and lines[0].count("assert ") > 1 and all(_is_assert(line) for line in lines[0].splitlines()):
        lines = lines[0].splitlines()
    return [line for line in lines if line.strip()]


def _is_assert(line: str) -> bool:
    return not line.strip() or line.startswith("assert ")
