"""The page in a real browser: mouse, keyboard and touch, at the widths of a desktop and a phone."""

from __future__ import annotations

import pytest
from browser import PROGRAM, Browser
from support import noise_png

from anyshot.classifier.web.app import make_app
from anyshot.classifier.web.limits import Limits

pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="Chromium is not installed (Debian's package: chromium)"
)
# As many characters as a name may have.
LONG = "Rindfleischetikettierungsueberwachungsaufgabenuebertragungsg"
# the first answer with all its digits
ANSWER = "fetch('/api/state').then((r) => r.json()).then((s) => JSON.stringify(s.pool[0]))"
SIZES = {
    "desk": {"width": 1280, "height": 900},
    "phone": {"width": 390, "height": 844, "phone": True},
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def url(served, reader):
    with served(make_app(reader, Limits(megabytes=1, pictures=12))) as url:
        yield url


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """folder/red/0.png … folder/green/…, and files that cannot be used."""
    folder = tmp_path_factory.mktemp("files")
    for channel, name in enumerate(("red", "green")):
        (folder / name).mkdir()
        for i in range(4):
            (folder / name / f"{i}.png").write_bytes(noise_png(channel, i))
    (folder / "notes.txt").write_text("not a photo")
    (folder / "huge.png").write_bytes(b"x" * 1_000_001)
    return folder


@pytest.fixture(params=SIZES)
def page(request, browser, url):
    """The page of a new visitor."""
    browser.call("Network.clearBrowserCookies")
    browser.open(url, **SIZES[request.param])
    browser.wait("document.querySelector('#about').textContent")
    yield browser
    assert browser.complaints() == []
    assert (
        browser.js("document.documentElement.scrollWidth") <= SIZES[request.param]["width"]
    )  # nothing sticks out


def card(n):
    return f"#class-list > :nth-child({n})"


def count(n):
    return f"document.querySelector('{card(n)} .count')?.textContent"


def add_class(page, name):
    page.js("document.querySelector('#new').focus()")
    page.type(name)
    page.press("Enter")
    page.wait(f"[...document.querySelectorAll('.name')].some((input) => input.value === '{name}')")


def teach(page, files, reds=3, greens=1):
    """Add two classes with photos, by dropping and by choosing."""
    add_class(page, "red")
    add_class(page, "green")
    page.drop(card(1), *(files / "red" / f"{i}.png" for i in range(reds)))
    page.wait(f"{count(1)} === '{reds} photos'")
    page.choose(
        f"{card(2)} input[type=file]", *(files / "green" / f"{i}.png" for i in range(greens))
    )
    page.wait(
        "!document.querySelector('#accuracy').hidden && document.querySelector('#work').hidden"
    )


def test_teach_classify_label_and_take_away(page, files):
    teach(page, files)
    page.drop("#pool-drop", files / "green" / "3.png", files / "red" / "3.png")
    page.wait("document.querySelectorAll('.answer .verdict b').length === 2")
    names = "[...document.querySelectorAll('.answer .bar:first-child span')]"
    numbers = "[...document.querySelectorAll('.answer .bar:first-child b')]"
    assert set(page.js(f"{names}.map((name) => name.textContent)")) == {"red", "green"}
    assert all(p.endswith("%") for p in page.js(f"{numbers}.map((n) => n.textContent)"))

    page.wait("document.querySelectorAll('.suggestion').length === 2")
    suggested = page.js("document.querySelector('.suggestion').getAttribute('aria-label')")
    page.click(".suggestion .choice")  # the likeliest class comes first
    page.wait("document.querySelectorAll('.suggestion').length === 1")
    page.wait("document.querySelectorAll('.answer').length === 1")
    assert page.js(f"[{count(1)}, {count(2)}].sort().join()") in (
        "1 photo,4 photos",
        "2 photos,3 photos",
    )
    assert page.js("document.querySelector('.suggestion').contains(document.activeElement)"), (
        suggested
    )

    weight = page.js("document.querySelector('.evidence dd b').textContent")
    answer = page.js(ANSWER)
    page.js(f"document.querySelector('{card(1)} input[type=range]').focus()")
    page.press("Home")
    label = f"document.querySelector('{card(1)} .slider span').textContent"
    page.wait(f"{label}.startsWith('Learn from 1 of')")
    page.wait(f"document.querySelector('.evidence dd b').textContent !== '{weight}'")
    assert page.js(ANSWER) != answer
    # for screen readers
    page.wait("document.querySelector('#status').textContent.startsWith('Learned from')")


def test_classes_are_renamed_and_photos_viewed_moved_and_removed(page, files):
    teach(page, files, greens=2)
    page.js(f"document.querySelector('{card(2)} .name').select()")
    page.type(LONG)
    page.press("Enter")
    page.wait(f"document.querySelector('{card(2)}').ariaLabel === '{LONG}'")
    page.click(f"{card(1)} .thumb")
    page.wait("document.querySelector('#viewer').open")
    viewer = "document.querySelector('#viewer')"
    assert page.js(f"{viewer}.scrollWidth <= {viewer}.clientWidth")
    page.click("#viewer-choices > :last-child")  # back to the photos to classify
    page.wait("document.querySelectorAll('.answer').length === 1")
    page.click(".answer")
    page.wait("document.querySelector('#viewer-verdict').textContent.length > 5")
    page.click("#viewer-remove")
    page.wait("document.querySelectorAll('.answer').length === 0")
    page.click(f"{card(1)} header .close")
    page.wait("document.querySelector('#sure').open")
    page.click("#sure .danger")
    page.wait("document.querySelectorAll('.class').length === 1")
    page.wait("document.querySelector('#accuracy').hidden")


def test_refusals_are_shown_on_the_page(page, files):
    def shown(words):
        page.wait(f"document.querySelector('#problems').innerText.includes({words!r})")

    add_class(page, "red")
    page.choose("#pool-files", files / "red" / "0.png")
    page.wait("document.querySelector('#waiting').textContent.includes('two classes')")
    page.choose("#pool-files", files / "notes.txt", files / "red" / "1.png", files / "huge.png")
    shown("notes.txt cannot be used")
    shown("huge.png is larger than 1 MB")
    page.wait("document.querySelectorAll('.answer').length === 2")  # the good one went through
    listed = page.js("[...document.querySelectorAll('#refused-list li')].map((li) => li.innerText)")
    assert len(listed) == 2  # notices disappear, the list stays
    assert "2 files" in page.js("document.querySelector('#refused summary').innerText")
    page.js("document.querySelector('#refused').open = true")
    page.click("#refused-clear")
    assert page.js("document.querySelector('#refused').hidden")
    page.js("document.querySelector('#new').focus()")
    page.type("RED")
    page.press("Enter")
    shown("RED")
    page.choose("#pool-files", *[files / "red" / "0.png"] * 14)
    shown("There are 12")
    page.wait("document.querySelectorAll('.answer').length === 12")


def test_notices_disappear_and_take_no_clicks(page):
    page.js("import('/static/state.js').then((m) => m.report('First.', 'Second.', 'First.'))")
    notices = "[...document.querySelectorAll('#problems > *')]"
    assert page.js(f"{notices}.map((notice) => notice.textContent)") == ["Second.", "First."]
    at = (
        "const { x, y, width, height } = document.querySelector('.problem').getBoundingClientRect()"
    )
    hit = f"(() => {{ {at}; return document.elementFromPoint(x + width / 2, y + height / 2); }})()"
    assert page.js(f"{hit}.closest('#problems') === null")
    page.wait(f"{notices}.length === 0")


def test_many_notices_do_not_pile_up(page):
    page.js("import('/static/state.js').then((m) => m.report(...'abcdefgh'))")
    assert page.js("document.querySelectorAll('#problems > *').length") == 4


def test_unknown_photos_come_first_and_certain_ones_last(page):
    page.js(f"import('/static/state.js').then((m) => m.take({{...m.now(), ...{UNSORTED}}}))")
    names = page.js("[...document.querySelectorAll('.answer small')].map((s) => s.textContent)")
    assert names == ["unknown", "uncertain", "certain"]


def test_an_answer_is_said_once_and_classes_that_it_excludes_are_left_out(page):
    page.js(f"import('/static/state.js').then((m) => m.take({{...m.now(), ...{UNSORTED}}}))")
    bars = "(answer) => [...answer.querySelectorAll('.bar')].map((bar) => bar.innerText.trim())"
    shown = page.js(f"[...document.querySelectorAll('.answer')].map({bars})")
    assert [[words.split() for words in answer] for answer in shown] == [
        [["a", "90%"], ["b", "10%"]],  # unknown: the verdict names no class
        [[], ["b", "40%"]],
        [[]],
    ]


def test_the_next_photos_are_advised_without_promising_what_they_do_not_bring(page):
    for gain, words in ((0.018, "5 more add about 1.8 points"), (0.0004, "hardly change")):
        page.js(
            f"import('/static/state.js').then((m) => m.take({{...m.now(), ...{expecting(gain)}}}))"
        )
        assert words in page.js("document.querySelector('#advice').innerText")


def test_all_controls_have_names_and_visible_focus(page, files):
    teach(page, files)
    page.choose("#pool-files", files / "red" / "3.png")
    page.wait("document.querySelectorAll('.suggestion').length === 1")
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    controls = [
        n
        for n in nodes
        if n.get("role", {}).get("value") in ("button", "textbox", "slider", "progressbar")
    ]
    assert len(controls) > 12
    assert [
        n["role"]["value"] for n in controls if not n.get("name", {}).get("value", "").strip()
    ] == []
    page.js("document.querySelector('#new').focus()")
    met = []
    for _ in range(14):
        page.press("Tab")
        met.append(page.js(FOCUS))
    assert all(visible for _, visible in met)
    names = [name for name, _ in met]
    assert {
        "Add photos to red",
        "Photos of red to learn from",
        "Remove the class green",
    } <= set(names)


def test_a_folder_of_folders_becomes_classes(browser, url, files):
    browser.call("Network.clearBrowserCookies")
    browser.open(url, **SIZES["desk"])
    browser.wait("document.querySelector('#about').textContent")
    browser.drop("#classes-title", files / "red", files / "green")
    browser.wait(f"{count(1)} === '4 photos' && {count(2)} === '4 photos'")
    assert (
        browser.js("[...document.querySelectorAll('.name')].map((i) => i.value).join()")
        == "red,green"
    )


def test_light_and_dark_are_both_readable(browser, url):
    backgrounds = []
    for dark in (False, True):
        browser.open(url, dark=dark)
        browser.wait("document.querySelector('#about').textContent")
        texts = ("h1", ".top p", ".steps span", "#folders", ".add .main", "#over", ".or")
        for text in texts:
            assert browser.js(CONTRAST % text) >= 4.5, (dark, text)
        backgrounds.append(browser.js("getComputedStyle(document.body).backgroundColor"))
    assert backgrounds[0] != backgrounds[1]


# A state with three photos in an order that the page has to change.
UNSORTED = """{
  classes: ["a", "b"].map((id) => ({ id, name: id, used: 0, pictures: [] })),
  pool: [
    { id: "1", name: "certain", probabilities: { a: 0.995, b: 0.005 }, unknown: false },
    { id: "2", name: "uncertain", probabilities: { a: 0.6, b: 0.4 }, unknown: false },
    { id: "3", name: "unknown", probabilities: { a: 0.9, b: 0.1 }, unknown: true },
  ],
  suggested: [],
  expected: null,
}"""


def expecting(gain):
    """A state with two classes, of which more photos of the first would add `gain`."""
    return f"""{{
      classes: ["a", "b"].map((id) => ({{
        id, name: id, used: 1, pictures: [], weight: 1, expected: 0.9, gain: {gain},
      }})),
      expected: {{ overall: 0.9, low: 0.8, high: 0.95, next: "a", caution: "", repeated: "" }},
      threshold: 0.8,
    }}"""


# The element with the focus, and whether its focus is visible.
FOCUS = """(() => {
  const element = document.activeElement;
  const outlined = (one) => getComputedStyle(one).outlineStyle !== "none";
  const name = element.ariaLabel || element.textContent || element.type;
  return [name, outlined(element) || outlined(element.parentElement)];
})()"""

# The contrast of a text with its background, by the Web Content Accessibility Guidelines.
CONTRAST = """(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((v) => v / 255);
  };
  const linear = (v) => (v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
  const weights = [.2126, .7152, .0722];
  const light = (colour) =>
    rgb(colour).reduce((sum, v, i) => sum + linear(v) * weights[i], .05);
  const element = document.querySelector("%s");
  const background = (one) => getComputedStyle(one).backgroundColor;
  let behind = element;
  while (background(behind) === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
  const a = light(getComputedStyle(element).color);
  const b = light(background(behind));
  return Math.max(a, b) / Math.min(a, b);
})()"""
