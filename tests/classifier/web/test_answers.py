"""The choices of a visitor, labels that look wrong, and workspaces with many photos."""

from __future__ import annotations

import numpy as np
import pytest
from support import colours, noise_png

from anyshot.classifier import AnyShotClassifier
from anyshot.classifier.web import state as states
from anyshot.classifier.web.arrangement import POOL
from anyshot.classifier.web.limits import Limits
from anyshot.classifier.web.uploads import Photo, UploadReader
from anyshot.classifier.web.workspace import Workspace


def photo(name: str, content: np.ndarray) -> Photo:
    return Photo(name, name, b"", content.astype(np.float32))


@pytest.fixture
def crowd(reader) -> Workspace:
    """Three classes of 12, 6 and 3 photos in 16 dimensions, and 40 photos to classify."""
    rng = np.random.default_rng(0)
    workspace = Workspace(reader, Limits())
    means = 3 * rng.random((3, 16)) + 1
    for c, count in enumerate((12, 6, 3)):
        workspace.add_class("abc"[c])
        key = list(workspace.groups)[-1]
        for i in range(count):
            new = photo(f"{c}-{i}", means[c] + 0.3 * rng.random(16))
            workspace.photos[new.id] = new
            workspace._change("", workspace.now.with_photos([new.id], key))
    for i in range(40):
        new = photo(f"new-{i}", means[i % 3] + rng.random(16))
        workspace.photos[new.id] = new
        workspace._change("", workspace.now.with_photos([new.id], POOL))
    return workspace


def by_hand(workspace: Workspace, **options) -> tuple[AnyShotClassifier, np.ndarray]:
    """The classifier that the page should have, and the features of photos without a class."""
    photos = workspace.photos
    ids = [(p, label) for label, g in enumerate(workspace.groups.values()) for p in g.photos]
    classifier = AnyShotClassifier(colours, side=8, **options)
    classifier.fit_features([photos[p].content for p, _ in ids], [label for _, label in ids])
    return classifier, np.stack([photos[p].content for p in workspace.pool])


def probabilities(workspace: Workspace) -> np.ndarray:
    rows = workspace.state()["pool"]
    return np.array([[row["probabilities"][key] for key in workspace.groups] for row in rows])


def test_the_switch_changes_how_common_the_classes_are(crowd):
    for as_given, prior in ((True, "as-given"), (False, "even")):
        crowd.choose_prior(as_given)
        classifier, features = by_hand(crowd, class_prior=prior)
        expected = classifier.classify_features(features).probabilities
        np.testing.assert_allclose(probabilities(crowd), expected, atol=1e-9)


def test_photos_that_are_not_used_still_count_for_how_common_a_class_is(crowd):
    crowd.choose_prior(True)
    crowd.use_photos(next(iter(crowd.groups)), 3)
    learned = crowd.answers.learn(crowd.now, crowd.photos)
    assert learned.shares == pytest.approx([12 / 21, 6 / 21, 3 / 21])


def test_the_threshold_decides_what_is_unknown(crowd):
    scores = np.array([row["score"] for row in crowd.state()["pool"]])
    usual = [row["unknown"] for row in crowd.state()["pool"]]
    classifier, features = by_hand(crowd)
    assert usual == classifier.classify_features(features).unknown.tolist()
    middle = float(np.median(scores))
    crowd.choose_threshold(middle)
    assert [row["unknown"] for row in crowd.state()["pool"]] == (scores > middle).tolist()
    assert f"{sum(scores > middle)}" == str(crowd.answers_csv().decode().count(",True,"))


def test_the_cost_of_thresholds_is_that_of_the_classifier(crowd):
    found = crowd.tradeoff()
    expected = by_hand(crowd)[0].unknown_tradeoff()
    np.testing.assert_allclose(found["flagged"], expected.known_flagged)
    np.testing.assert_allclose(found["found"], expected.unknown_found)
    crowd.remove_class(next(iter(crowd.groups)))
    assert len(crowd.tradeoff()["found"]) == 99  # two classes: the usual shares


def test_labels_that_look_wrong_are_listed_until_they_are_confirmed_or_moved(crowd):
    a, b, _ = crowd.groups
    assert crowd.state()["suspects"] == []
    crowd.move_photos(["1-0", "1-1"], a)  # wrong
    suspects = crowd.state()["suspects"]
    assert {row["id"] for row in suspects} == {"1-0", "1-1"}
    assert {row["suggested"] for row in suspects} == {b}
    crowd.confirm_labels(["1-0"])
    assert [row["id"] for row in crowd.state()["suspects"]] == ["1-1"]
    crowd.move_photos(["1-1"], b)
    assert "1-1" not in [row["id"] for row in crowd.state()["suspects"]]


def test_left_out_answers_are_those_of_the_heads_that_did_not_see_the_photo(crowd):
    p = by_hand(crowd)[0].adapted_.held_out.exp().numpy()
    keys = list(crowd.groups)
    rows = [row for c in crowd.state()["classes"] for row in c["pictures"]]
    assert [row["guess"] for row in rows] == [keys[i] for i in p.argmax(1)]
    np.testing.assert_allclose([row["sure"] for row in rows], p.max(1), atol=1e-4)
    single = list(crowd.groups.values())[2].photos
    crowd.remove_photos(single[1:])
    assert "guess" not in crowd.state()["classes"][2]["pictures"][0]  # cannot be left out


def test_only_what_has_changed_is_computed_again(crowd, monkeypatch):
    crowd.state()
    monkeypatch.setattr(UploadReader, "fit", None)  # would fail
    crowd.rename_class(next(iter(crowd.groups)), "A")
    crowd.remove_photos(crowd.pool[:3])
    assert len(crowd.state()["pool"]) == 37
    crowd.choose_prior(True)
    crowd.choose_threshold(0.5)
    assert len(crowd.state()["pool"]) == 37


def test_large_classes_are_learned_in_part(crowd, monkeypatch):
    monkeypatch.setattr(states, "LEARNED", 13)
    state = crowd.state()
    assert [c["used"] for c in state["classes"]] == [5, 5, 3]
    assert state["most"] == 5


@pytest.mark.parametrize("counts", [[0], [3, 4], [500, 500], [501, 500], [9, 400, 5000], [2000]])
def test_the_most_of_a_class_is_the_largest_number_that_fits(counts):
    def total(m):
        return sum(min(count, m) for count in counts)

    most = states.most_of_a_class(counts)
    assert total(most) <= states.LEARNED
    assert total(most + 1) > states.LEARNED or total(most) == sum(counts)


def test_ten_thousand_photos_are_described_and_removed(reader):
    workspace = Workspace(reader, Limits())
    ids = [f"p{i}" for i in range(10_000)]
    workspace.photos = {key: photo(key, np.ones(6)) for key in ids}
    workspace._change("", workspace.now.with_photos(ids, POOL))
    assert len(workspace.state()["pool"]) == 10_000
    workspace.remove_photos(ids[:5000])
    assert [row["id"] for row in workspace.state()["pool"]] == ids[5000:]


def test_the_page_gets_the_largest_probabilities_only(reader):
    workspace = Workspace(reader, Limits())
    for c in range(8):
        workspace.add_class(f"class {c}")
        workspace.add_photo("a.png", noise_png(c % 3, c), list(workspace.groups)[-1])
    workspace.add_photo("new.png", noise_png(0, 99), POOL)
    found = list(workspace.state()["pool"][0]["probabilities"].values())
    everything = workspace.answers.learned.probabilities[workspace.pool[0]]
    assert found == sorted(everything, reverse=True)[: states.SHOWN]
