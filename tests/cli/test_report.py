from __future__ import annotations

import re

import pytest

from anyshot.cli.main import main


def test_the_page_is_self_contained(trained, tmp_path):
    out = tmp_path / "page.html"
    with pytest.raises(SystemExit) as end:
        main(
            [
                "report",
                str(trained["maml"]),
                str(trained["taml"]),
                "--tasks",
                "4",
                "--out",
                str(out),
            ]
        )
    assert not end.value.code
    page = out.read_text()
    for words in (
        "Learning curves",
        "Calibration",
        "by the number of images",
        "taml: ω",
        "taml: γ",
        "taml: ‖z‖",
        "A task of tiny",
        "support images",
        "difference to the first",
    ):
        assert words in page
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    assert (
        len(re.findall('(right|wrong)">maml: ', page))
        == len(re.findall('(right|wrong)">taml: ', page))
        == 2 * 3
    )
