"""Class priors: Bayes' rule, the three forms, and that they need no new fit."""

from __future__ import annotations

import json

import numpy as np
import pytest

from anyshot.classifier import AnyShotClassifier
from anyshot.classifier.class_prior import class_shares, parse_class_prior
from anyshot.core.errors import ClassifierError

RNG = np.random.default_rng(0)
COUNTS = (9, 3, 1)
X = np.concatenate([RNG.normal(c, 1.5, (n, 6)) for c, n in enumerate(COUNTS)])
Y = np.repeat(["a", "b", "c"], COUNTS)
NEW = RNG.normal(1, 1.5, (20, 6))


def fit(**how):
    return AnyShotClassifier(None, **how).fit(X, Y)


def test_probabilities_follow_bayes_rule():
    """Each posterior by p(c) p(x | c) / p(x), with likelihoods taken from the even posterior."""
    even = fit().predict_proba(NEW)
    shares = {"a": 0.7, "b": 0.1, "c": 0.2}
    likelihood = even / (1 / 3)  # up to a factor for each image
    for row, found in zip(likelihood, fit(class_prior=shares).predict_proba(NEW), strict=True):
        evidence = sum(row[i] * shares[c] for i, c in enumerate("abc"))
        expected = [row[i] * shares[c] / evidence for i, c in enumerate("abc")]
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_as_given_uses_the_numbers_of_images():
    by_hand = fit(class_prior=dict(zip("abc", COUNTS, strict=True))).predict_proba(NEW)
    np.testing.assert_allclose(fit(class_prior="as-given").predict_proba(NEW), by_hand)
    assert not np.allclose(by_hand, fit().predict_proba(NEW))


def test_the_prior_changes_without_a_new_fit():
    clf = fit()
    adapted, even = clf.adapted_, clf.predict_proba(NEW)
    given = clf.set_class_prior("as-given").predict_proba(NEW)
    np.testing.assert_array_equal(given, clf.classify(NEW).probabilities)
    assert clf.adapted_ is adapted
    np.testing.assert_array_equal(clf.set_params(class_prior="even").predict_proba(NEW), even)
    assert (given[:, 0] > even[:, 0]).all()


def test_unknown_scores_do_not_depend_on_the_prior():
    clf = fit()
    scores = clf.unknown_score(NEW)
    np.testing.assert_array_equal(clf.set_class_prior("as-given").unknown_score(NEW), scores)


def test_the_prior_is_saved(tmp_path):
    clf = fit(class_prior="as-given")
    clf.save(tmp_path / "given")
    clf.set_class_prior({"a": 1, "b": 2, "c": 3}).save(tmp_path / "shares")
    assert AnyShotClassifier.load(tmp_path / "given").class_prior == "as-given"
    loaded = AnyShotClassifier.load(tmp_path / "shares")
    np.testing.assert_array_equal(loaded.predict_proba(NEW), clf.predict_proba(NEW))


def test_classes_can_be_numbers_and_later_classes_are_allowed():
    numbers = np.searchsorted(["a", "b", "c"], Y)
    clf = AnyShotClassifier(None, class_prior={0: 1, 1: 1, 2: 8, 3: 5}).fit(X, numbers)
    assert (clf.predict_proba(NEW)[:, 2] > fit().predict_proba(NEW)[:, 2]).all()


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ("often", "often"),
        ({}, "expected"),
        ({"a": 1, "b": 1}, "no share of class 'c'"),
        ({"a": 1, "b": 0, "c": 1}, "above 0"),
        ({"a": 1, "b": float("nan"), "c": 1}, "above 0"),
        (None, "None"),
    ],
)
def test_a_wrong_prior_is_an_error_and_changes_nothing(prior, message):
    clf = fit()
    with pytest.raises(ClassifierError, match=message):
        clf.set_class_prior(prior)
    assert clf.class_prior == "even"
    with pytest.raises(ValueError, match=message):
        fit(class_prior=prior)


def test_priors_of_commands(tmp_path):
    shares = {"cat": 0.25, "dog": 0.75}
    (tmp_path / "p.json").write_text(json.dumps(shares))
    (tmp_path / "p.csv").write_text("class,share\ncat,0.25\ndog,0.75\n")
    assert parse_class_prior("as-given") == "as-given"
    for text in ("cat=0.25, dog=0.75", str(tmp_path / "p.json"), str(tmp_path / "p.csv")):
        assert parse_class_prior(text) == shares
    np.testing.assert_allclose(class_shares(shares, ["dog", "cat"], [5, 5]), [0.75, 0.25])


@pytest.mark.parametrize(
    ("text", "message"),
    [("evn", "evn"), ("cat=x", "expected a number"), ("cat=1,cat=2", "two shares"), ("=1", "=1")],
)
def test_a_wrong_text_is_an_error(text, message):
    with pytest.raises(ClassifierError, match=message):
        parse_class_prior(text)


def test_a_file_of_three_columns_is_an_error(tmp_path):
    (tmp_path / "p.csv").write_text("cat,1,2\n")
    with pytest.raises(ClassifierError, match="two columns"):
        parse_class_prior(str(tmp_path / "p.csv"))


@pytest.mark.parametrize("prior", ["even", "as-given", {"a": 2, "b": 3, "c": 5}], ids=str)
def test_shares_have_the_sum_one(prior):
    expected = {"even": [1 / 3] * 3, "as-given": [1 / 8, 3 / 8, 4 / 8]}
    found = class_shares(prior, ["a", "b", "c"], [1, 3, 4])
    np.testing.assert_allclose(found, expected.get(str(prior), [0.2, 0.3, 0.5]))


@pytest.mark.parametrize("share", [True, "0.5", None, np.inf, 0])
def test_shares_are_positive_numbers(share):
    with pytest.raises(ClassifierError, match="'b'"):
        class_shares({"a": 1.0, "b": share}, ["a", "b"], [1, 1])
