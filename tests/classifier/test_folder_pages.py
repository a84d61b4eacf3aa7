"""Pages about classified photos, from answers that are made up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from browser import PROGRAM, Browser
from support import noise_png

from anyshot.classifier.confidence.explanation import ClassEvidence, Explanation
from anyshot.classifier.folder_pages import (
    explanation_html,
    write_evaluation_page,
    write_predictions_page,
)
from anyshot.classifier.folder_report import evaluate_folder
from anyshot.classifier.folders import Classification, LabelledFiles
from anyshot.evaluation.report.html import figure


def explanation(names):
    classes = [
        ClassEvidence(n, 3 + i, 1.0, {}, 0.5, 0.0125 * i, 3 + i) for i, n in enumerate(names)
    ]
    return Explanation(tuple(classes), 0.8, 0.6, 0.9, 0.5)


def answer(path, names, label, p, unknown=False):
    rest = (1 - p) / (len(names) - 1)
    probabilities = {name: p if name == label else rest for name in names}
    return Classification(Path(path), label, p, unknown, 0.5, probabilities)


def shown(page, pattern=r"<small>(\w+)\.png</small>"):
    return re.findall(pattern, page)


def test_the_explanation_shows_the_gain_in_points():
    page = explanation_html(explanation("abc"))
    for text in ("80%", "60% to 90%", "More photos of c", ">1.2<", ">2.5<", ">50%<"):
        assert text in page


def test_predictions_are_grouped_by_how_sure_they_are(tmp_path):
    answers = [
        answer("x.png", "ab", "a", 0.9, unknown=True),
        answer("y.png", "ab", "a", 0.7),
        answer("z.png", "ab", "b", 0.95),
    ]
    write_predictions_page(
        tmp_path / "p.html", answers, explanation("ab"), LabelledFiles([], [], [])
    )
    page = (tmp_path / "p.html").read_text()
    headings = re.findall(r"<h2>(.*?)</h2>", page)
    assert headings == [
        "Classes",
        "Unlike all classes (1)",
        "Uncertain: below 80% (1)",
        "Certain: 80% and more (1)",
    ]
    assert shown(page) == ["x", "y", "z"]


def test_of_many_photos_the_certain_ones_are_folded(tmp_path):
    for count, folded in ((20, 0), (500, 1)):
        answers = [answer(f"{i}.png", "ab", "a", 0.6 + 0.3 * (i % 2)) for i in range(count)]
        path = tmp_path / f"{count}.html"
        write_predictions_page(path, answers, explanation("ab"), LabelledFiles([], [], []))
        closed = re.findall(r"<details><summary><h2>(.*?)</h2>", path.read_text())
        assert closed == ["Certain: 80% and more (250)"] * folded


def evaluation(names, rows):
    answers = [answer(path, names, label, p) for path, _, label, p in rows]
    truth = [label for _, label, _, _ in rows]
    photos = LabelledFiles([a.path for a in answers], truth, [])
    return evaluate_folder(explanation(names), photos, answers)


def test_the_surest_wrong_answers_and_the_least_sure_right_ones_come_first(tmp_path):
    rows = [
        ("right1.png", "a", "a", 0.9),
        ("wrong1.png", "a", "b", 0.6),
        ("right2.png", "a", "a", 0.7),
        ("wrong2.png", "a", "b", 0.8),
    ]
    found = evaluation("ab", rows)
    write_evaluation_page(tmp_path / "p.html", found, explanation("ab"))
    page = (tmp_path / "p.html").read_text()
    assert shown(page) == ["wrong2", "wrong1", "right2", "right1"]
    assert "<svg" in page


def test_no_answer_is_called_certain_by_rounding(tmp_path):
    rows = [("a.png", "a", "b", 0.9996), ("b.png", "b", "b", 1.0)]
    write_evaluation_page(tmp_path / "p.html", evaluation("ab", rows), explanation("ab"))
    captions = re.findall(r"</meter>(\S+) <small>", (tmp_path / "p.html").read_text())
    assert captions == ["&gt;99%", "100%"]


def test_five_thousand_photos_would_stay_below_five_megabytes(tmp_path):
    (tmp_path / "photo with a longer name.png").write_bytes(noise_png(0, 0))
    names = [f"a class with a name {i}" for i in range(30)]
    path = tmp_path / "photo with a longer name.png"
    rows = [(path, names[i % 30], names[(i + i % 7 // 6) % 30], 0.6) for i in range(500)]
    write_evaluation_page(tmp_path / "p.html", evaluation(names, rows), explanation(names))
    assert (tmp_path / "p.html").stat().st_size < 500_000
    assert len(list((tmp_path / "p_files").iterdir())) == 500


@pytest.mark.skipif(PROGRAM is None, reason="Chromium is not installed")
def test_thirty_classes_fit_and_headings_stay_in_view(tmp_path):
    names = [f"a class with a name {i}" for i in range(30)]
    rows = [(f"{i}.png", names[i % 30], names[(i * i) % 30], 0.6) for i in range(420)]
    write_evaluation_page(tmp_path / "p.html", evaluation(names, rows), explanation(names))
    browser = Browser(tmp_path / "profile")
    try:
        browser.open((tmp_path / "p.html").as_uri(), width=1280)
        box = "document.querySelector('.matrix').parentElement"
        assert browser.js(f"{box}.scrollWidth <= {box}.clientWidth")
        assert browser.js("document.documentElement.scrollWidth") <= 1280
        assert browser.js("document.querySelectorAll('details:not([open])').length") > 1
        browser.js("document.querySelector('.matrix td.right a').click()")  # opens its photos
        browser.wait("!!document.querySelector('details[open] .cell.right:target')")
        browser.js("scrollTo(0, 0)")
        browser.js("[...document.querySelectorAll('.matrix td.wrong a')].at(-3).click()")
        assert browser.js("document.querySelector(':target').className") == "cell wrong"
        top = "document.querySelector('h2.wrong').getBoundingClientRect().top"
        browser.wait(f"Math.abs({top}) < 2 && scrollY > 500")
        bottom = "document.querySelector('h2.wrong').getBoundingClientRect().bottom"
        heading = "document.querySelector(':target h3').getBoundingClientRect().top"
        distance = browser.js(f"{heading} - {bottom}")
        assert 0 <= distance < 16, distance  # just below the heading that stays
        red = "getComputedStyle(document.querySelector('.wrong figcaption b')).color"
        assert browser.js(red) == "rgb(179, 38, 30)"
        assert browser.complaints() == []
    finally:
        browser.close()


@pytest.mark.parametrize("unknown", [True, False])
def test_a_figure_says_whether_the_photo_is_unknown(unknown):
    found = figure("thumb.jpg", Path("a.png"), "cat", 0.9, unknown)
    assert ('class="unknown"' in found) == unknown == ("None of these?" in found)
    assert ('class="known"' in found) != unknown
