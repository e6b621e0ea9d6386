"""GSM8K: word problems of primary school, whose solutions end in `#### 1,234`."""

from __future__ import annotations

from typing import Any

from grpodyn.config.validation import StrictModel
from grpodyn.rewards.numbers import number
from grpodyn.tasks.rows import DatasetTask, Row
from grpodyn.tasks.source import Source


class Gsm8kOptions(StrictModel):
    """Columns of the data set."""

    question: str = "question"
    answer: str = "answer"


class Gsm8k(DatasetTask):
    """`answer` is the number alone, without separators; the worked solution is the column `solution`.

    Reference: Cobbe et al., Training Verifiers to Solve Math Word Problems, arXiv:2110.14168.
    """

    name = "gsm8k"
    home = Source("openai/gsm8k", "main")
    options_type = Gsm8kOptions
    template = "{prompt}\nThink step by step. End with a line that holds #### and the answer, such as: #### 42"

    def convert(self, row: Row) -> dict[str, Any]:
        """Return question, number and solution."""
        question = self.text(row, self.options.question, "question")
        solution = str(self.column(row, self.options.answer, "answer") or "")
        written = solution.rpartition("####")[2]
        if number(written) is None:
            raise ValueError(f"its answer ends in {written.strip()[-60:]!r}, expected a number after '####'")
        return {"prompt": question, "answer": written.strip().replace(",", ""), "solution": solution}
