"""The tables of the documents are those of the results files."""

from __future__ import annotations

from pathlib import Path

import pytest
from classifier_tables import RESULTS, make_tables

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {"README": DOCS.parent / "README.md", "heads": DOCS / "how-the-classifier-learns.md"}
TABLES = make_tables(RESULTS)


@pytest.mark.parametrize("title", TABLES)
def test_documents_have_every_row_of_the_tables(title):
    page = PAGES.get(title, DOCS / "classifier.md").read_text("utf-8").splitlines()
    assert [line for line in TABLES[title] if line not in page] == []
