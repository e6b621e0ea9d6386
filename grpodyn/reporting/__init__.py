"""Reports: notebooks that show what analyses found, and one page of HTML made from what they show. Computes nothing.

A notebook needs this module alone:

    from grpodyn import figures
    from grpodyn.reporting import Page, words

    page = Page(["runs/a"])
    page.show(page.runs[0], "reward_course", words.forecast, figures.reward)
"""

from grpodyn.reporting.blocks import Block, Heading, Sentence, Table, Verdict
from grpodyn.reporting.page import Page

__all__ = ["Block", "Heading", "Page", "Sentence", "Table", "Verdict"]
