"""Tables and pages about classified photos, from answers and counts that are made up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from anyshot.classifier.confidence.explanation import ClassEvidence, Explanation
from anyshot.classifier.folder_report import (
    MAX_CLASSES,
    MAX_ERRORS,
    MAX_REPEATED,
    MAX_SHOWN,
    FolderEvaluation,
    class_accuracy_table,
    confusion_table,
    describe_evaluation,
    describe_next,
    describe_repeated,
    evaluate_folder,
    predictions_table,
)
from anyshot.classifier.folders import Classification, LabelledFiles


def answer(i, label="a", probability=0.75, unknown=False, support_index=None):
    others = {name: (1 - probability) / 2 for name in "abc" if name != label}
    probabilities = dict(sorted({label: probability, **others}.items()))
    path = Path(f"{i}.png")
    return Classification(path, label, probability, unknown, 0.5, probabilities, support_index)


def explanation(names="abc"):
    classes = [
        ClassEvidence(n, 3 + i, 1.0, {}, 0.5, 0.0125 * i, 3 + i) for i, n in enumerate(names)
    ]
    return Explanation(tuple(classes), 0.8, 0.6, 0.9, 0.5)


def evaluation(counts):
    counts = np.asarray(counts)
    names = [f"class {i}" for i in range(len(counts))]
    return FolderEvaluation(names, [], [], counts, None, [], None)


def rows_of(table):
    return list(zip(*(column.cells for column in table.columns), strict=True))


@pytest.mark.parametrize("extra", [0, 3])
def test_a_long_table_of_predictions_is_shortened(tmp_path, extra):
    answers = [answer(i, unknown=i == 0) for i in range(MAX_SHOWN + extra)]
    rows = rows_of(predictions_table(answers, tmp_path / "single.png"))
    assert [row[0] for row in rows[:MAX_SHOWN]] == [f"{i}.png" for i in range(MAX_SHOWN)]
    assert rows[0][1] == "none of these? most like a"
    assert rows[1][1:] == ("a", "75.0%")
    assert len(rows) == MAX_SHOWN + (extra > 0)
    assert extra == 0 or f"{extra} more" in rows[-1][0]


def test_accuracy_by_class_is_the_share_of_its_row():
    found = evaluation([[3, 1, 0], [0, 0, 0], [2, 0, 6]])
    rows = rows_of(class_accuracy_table(found, explanation(["class 0", "class 2"])))
    assert rows == [
        ("class 0", "3", "4", "3", "75.0%"),
        ("class 1", "0", "0", "0", "–"),
        ("class 2", "4", "8", "6", "75.0%"),
    ]


def test_the_text_of_an_evaluation_names_the_worst_class_that_was_tested():
    answers = [answer(i, label) for i, label in enumerate("aaab")]
    truth = LabelledFiles([a.path for a in answers], list("aabb"), [])
    text = describe_evaluation(evaluate_folder(explanation(), truth, answers), explanation())
    assert "3 of 4 photos are right: accuracy 75.0%" in text
    assert "worst class is b with 50.0%" in text
    assert "(90% interval 60% to 90%)" in text


@pytest.mark.parametrize(("gain", "words"), [(0.018, "1.8 points"), (0.0004, "hardly change")])
def test_more_photos_are_advised_with_what_they_bring(gain, words):
    c = ClassEvidence("a", 3, 1.0, {}, 0.5, gain, 3)
    text = describe_next(Explanation((c,), 0.8, 0.6, 0.9, 0.5))
    assert "a" in text
    assert words in text


@pytest.mark.parametrize("errors", [4, MAX_ERRORS + 5])
def test_large_confusion_matrices_are_listed_by_their_errors(errors):
    way = MAX_CLASSES + 1
    counts = 100 * np.eye(way, dtype=int)
    cells = [(i % way, (i + 2) % way) for i in range(0, 5 * errors, 5)]
    cells = list(dict.fromkeys(cells))[:errors]
    for count, cell in enumerate(cells, 1):
        counts[cell] = count
    expected = sorted(((counts[c], c) for c in cells), reverse=True)[:MAX_ERRORS]
    rows = rows_of(confusion_table(evaluation(counts)))
    assert rows == [(f"class {i}", f"class {j}", str(n)) for n, (i, j) in expected]


def test_small_confusion_matrices_are_shown_in_full():
    counts = np.arange(MAX_CLASSES**2).reshape(MAX_CLASSES, -1)
    rows = rows_of(confusion_table(evaluation(counts)))
    assert [row[1:] for row in rows] == [tuple(map(str, row)) for row in counts]


@pytest.mark.parametrize("extra", [0, 2])
def test_a_long_list_of_repeated_photos_is_shortened(extra):
    repeated = [answer(i, support_index=0) for i in range(MAX_REPEATED + extra)]
    text = describe_repeated([*repeated, answer("new")], [Path("known.jpg")], "query")
    assert text.count("known.jpg") == MAX_REPEATED
    assert f"{MAX_REPEATED + extra} of {MAX_REPEATED + extra + 1} query" in text
    assert ("more" in text) == (extra > 0)
    assert extra == 0 or f"{extra} more" in text
    assert describe_repeated([answer("new")], [], "query") == ""


@pytest.mark.parametrize("repeated", [0, 2, 4])
def test_results_without_repeated_photos_need_both_kinds(repeated):
    answers = [answer(i, "abcb"[i], support_index=0 if i < repeated else None) for i in range(4)]
    truth = LabelledFiles([a.path for a in answers], ["b", "b", "c", "b"], [])
    found = evaluate_folder(explanation(), truth, answers)
    assert found.summary.accuracy == pytest.approx(3 / 4)
    assert found.repeated == answers[:repeated]
    assert (found.without_repeated is not None) == (repeated == 2)
    text = describe_evaluation(found, explanation())
    if found.without_repeated:
        assert found.without_repeated.accuracy == 1
        assert "(2 photos)" in text
    assert ("without the" in text) == (repeated == 2)
