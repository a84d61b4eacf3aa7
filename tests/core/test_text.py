"""Names are safe to print, and cells are safe in a spreadsheet."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshot.core.text import readable, spreadsheet_safe


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("café ω 日本.png", "café ω 日本.png"),
        ("two\nlines", r"two\nlines"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("caf\udce9", r"caf\udce9"),
        ("exe\u202egnp.jpg", r"exe\u202egnp.jpg"),
        ("line\u2028separator", r"line\u2028separator"),
        (Path("folder") / "a\tb", r"folder/a\tb"),
    ],
)
def test_characters_that_a_terminal_acts_on_are_escaped(name, shown):
    assert readable(name) == shown


@given(st.text())
def test_readable_text_is_one_printable_line_of_utf8(text):
    shown = readable(text)
    assert len(shown.splitlines()) <= 1
    shown.encode()


@pytest.mark.parametrize("cell", ["=1", "+a", "-a", "@a", "\t=1", "\r=1", "--1", Path("=x")])
def test_formulas_get_an_apostrophe(cell):
    assert spreadsheet_safe(cell) == f"'{cell}"


@pytest.mark.parametrize("cell", ["a=1", "-1", "+1.5e-3", "-inf", -1, -0.5, None, True, "", "oak"])
def test_other_cells_stay(cell):
    assert spreadsheet_safe(cell) == cell
