from __future__ import annotations

import re

import numpy as np
import pytest

from anyshot.evaluation.report.calibration_plot import SIZE, calibration_plot
from anyshot.evaluation.report.confusion_page import confusion_cells, confusion_table

NAMES = ["ant", "bee", "c<b>at"]
COUNTS = np.array([[6, 2, 0], [0, 3, 1], [0, 0, 0]])
CELLS = {(0, 0): ["A"] * 6, (0, 1): ["B"] * 2, (1, 1): ["C"] * 3, (1, 2): ["D"]}


def test_the_table_links_and_shades_each_count_and_ends_with_the_accuracy():
    rows = re.findall(r'<tr><th scope="row".*?</tr>', confusion_table(NAMES, COUNTS))
    ant, _, cat = rows
    links = re.findall(r'href="#(cell-\d-\d)" aria-label="(.*?)">(\d+)<', ant)
    assert links == [
        ("cell-0-0", "6 of ant predicted as ant", "6"),
        ("cell-0-1", "2 of ant predicted as bee", "2"),
    ]
    assert re.findall(r'class="(\w+)" style="--p:([\d.]+)"', ant) == [
        ("right", "0.75"),
        ("wrong", "0.25"),
    ]
    accuracies = [re.search(r'accuracy">(.*?)<', row)[1] for row in rows]
    assert accuracies == ["75%", "75%", "–"]
    assert "c&lt;b&gt;at" in cat
    assert "href" not in cat


def test_wrong_answers_come_first_and_the_most_frequent_before_others():
    page = confusion_cells(NAMES, CELLS)
    assert re.findall(r'id="(cell-\d-\d)"', page) == [
        "cell-0-1",
        "cell-1-2",
        "cell-0-0",
        "cell-1-1",
    ]
    assert "Wrong answers: 3 of 12" in page
    section = re.search(r'id="cell-0-1">(.*?)</section>', page, re.S)[1]
    assert "ant predicted as bee (2)" in section
    assert section.count("\nB") == 2
    assert page.index("Wrong answers") < page.index("cell-0-1") < page.index("ant: 6 right")
    assert page.count('class="cell wrong"') == 2


def test_no_wrong_answers_are_said_so():
    assert "Wrong answers: 0 of 9" in confusion_cells(NAMES, {(0, 0): ["A"] * 9})


def test_the_discs_of_a_calibration_plot_are_where_accuracy_and_confidence_are():
    plot = calibration_plot([(0, 0, 0), (4, 1, 2.0), (12, 12, 12.0)])
    discs = [
        tuple(map(float, disc)) for disc in re.findall(r'cx="(.*?)" cy="(.*?)" r="(.*?)"', plot)
    ]
    (x1, y1, r1), (x2, y2, r2) = discs
    assert x2 - x1 == SIZE / 2
    assert y1 - y2 == SIZE * 3 / 4
    assert ((r2 - 3) / (r1 - 3)) ** 2 == pytest.approx(3, rel=0.02)
    assert "25% right at 50% (25% of the photos)" in plot
