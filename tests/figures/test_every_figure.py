"""What holds of every figure: at 12 and at 80 layers, at both widths, nothing is cut off and nothing is left behind."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from grpodyn.figures.drawn import PNG_DPI, WIDTHS, Drawn

SVG = "{http://www.w3.org/2000/svg}"


def cut_off(drawn: Drawn) -> float:
    """Return by how many inches what is drawn reaches over the paper's edges."""
    canvas = FigureCanvasAgg(drawn.figure)
    canvas.draw()
    box = drawn.figure.get_tightbbox(canvas.get_renderer())
    width, height = drawn.figure.get_size_inches()
    return max(-box.x0, -box.y0, box.x1 - width, box.y1 - height)


@pytest.mark.parametrize("width", list(WIDTHS))
def test_at_12_layers(view: Any, small: Any, width: str) -> None:
    drawn = view(small, width)
    assert cut_off(drawn) < 0.02
    assert drawn.figure.get_size_inches()[0] == pytest.approx(WIDTHS[width])


def test_at_80_layers(view: Any, deep: Any) -> None:
    drawn = view(deep, "page")
    assert cut_off(drawn) < 0.02
    assert drawn.figure.get_size_inches()[1] < 9, "higher than a page"


def test_words_come_from_the_numbers(view: Any, small: Any) -> None:
    drawn = view(small, "page")
    assert len(drawn.title) > 5
    assert re.search(r"\d", drawn.alt), drawn.alt
    assert not re.search(r"\bnan\b|\bNone\b|[{}<>]", drawn.alt), drawn.alt


def test_svg_is_whole_in_itself(view: Any, small: Any) -> None:
    text = view(small, "column").svg()
    root = ElementTree.fromstring(text)
    assert root.tag == f"{SVG}svg"
    # Namespaces are names; anything else with a scheme would be fetched.
    addresses = re.findall(r'(?:href|src)="([^"]+)"|url\(([^)]+)\)', text)
    assert all((a or b).startswith(("#", "data:image/png")) for a, b in addresses)
    assert len(text) < 400_000
    assert "prefers-color-scheme" in text


def test_nothing_of_pyplot_or_of_the_settings_is_touched(view: Any, small: Any) -> None:
    before = dict(mpl.rcParams)
    view(small, "page").svg()
    assert dict(mpl.rcParams) == before
    pyplot = __import__("sys").modules.get("matplotlib.pyplot")
    assert pyplot is None or not pyplot.get_fignums()


def test_files_have_paper_size(small: Any, views: Any, tmp_path: Any) -> None:
    drawn = views["recorder_cost"](small, "column")
    for kind in ("svg", "pdf", "png"):
        drawn.save(tmp_path / f"a.{kind}")
    png = (tmp_path / "a.png").read_bytes()
    assert int.from_bytes(png[16:20], "big") == round(WIDTHS["column"] * PNG_DPI)
    box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ", (tmp_path / "a.pdf").read_bytes())
    assert box is not None
    assert float(box[1]) == pytest.approx(72 * WIDTHS["column"], abs=1)
    root = ElementTree.fromstring((tmp_path / "a.svg").read_text())
    assert root.get("width") == f"{72 * WIDTHS['column']:g}pt"


def test_an_unknown_format_is_refused_by_name(small: Any, views: Any, tmp_path: Any) -> None:
    with pytest.raises(Exception, match="unknown figure format 'jpeg'"):
        views["recorder_cost"](small, "page").save(tmp_path / "a.jpeg")
