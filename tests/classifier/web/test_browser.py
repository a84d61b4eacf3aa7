"""The page in a real browser: by mouse, by keyboard and by touch, at the width of a desk and of a phone."""

from __future__ import annotations

import pytest
from browser import PROGRAM, Browser
from support import noise_png

from anyshot.classifier.web.app import make_app
from anyshot.classifier.web.limits import Limits

pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="Chromium is not installed (Debian's package: chromium)"
)
LONG = "Rindfleischetikettierungsueberwachungsaufgabenuebertragungsg"  # as many characters as a name may have
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
    """folder/red/0.png … folder/green/…, and files that are no use."""
    folder = tmp_path_factory.mktemp("files")
    for channel, name in enumerate(("red", "green")):
        (folder / name).mkdir()
        for i in range(4):
            (folder / name / f"{i}.png").write_bytes(noise_png(channel, i))
    (folder / "notes.txt").write_text("not a picture")
    (folder / "huge.png").write_bytes(b"x" * 1_000_001)
    return folder


@pytest.fixture(params=SIZES)
def page(request, browser, url):
    """The page as a new visitor finds it."""
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
    """Two classes with pictures, by dropping and by choosing."""
    add_class(page, "red")
    add_class(page, "green")
    page.drop(card(1), *(files / "red" / f"{i}.png" for i in range(reds)))
    page.wait(f"{count(1)} === '{reds} pictures'")
    page.choose(
        f"{card(2)} input[type=file]", *(files / "green" / f"{i}.png" for i in range(greens))
    )
    page.wait(
        "!document.querySelector('#outlook').hidden && document.querySelector('#work').hidden"
    )


def test_teach_classify_label_and_take_away(page, files):
    teach(page, files)
    page.drop("#pool-drop", files / "green" / "3.png", files / "red" / "3.png")
    page.wait("document.querySelectorAll('.answer .verdict b').length === 2")
    said = page.js("Object.fromEntries([...document.querySelectorAll('.answer')].map((a) => "
                   "[a.querySelector('.bar span').textContent, a.querySelector('.bar b').textContent]))")  # fmt: skip
    assert set(said) == {"red", "green"}
    assert all(p.endswith(" %") for p in said.values())

    page.wait("document.querySelectorAll('.suggestion').length === 2")
    suggested = page.js("document.querySelector('.suggestion').getAttribute('aria-label')")
    page.click(".suggestion .choice")  # the likeliest class comes first
    page.wait("document.querySelectorAll('.suggestion').length === 1")
    page.wait("document.querySelectorAll('.answer').length === 1")
    assert page.js(f"[{count(1)}, {count(2)}].sort().join()") in (
        "1 picture,4 pictures",
        "2 pictures,3 pictures",
    )
    assert page.js("document.querySelector('.suggestion').contains(document.activeElement)"), (
        suggested
    )

    before = page.js(
        "[document.querySelector('.evidence dd b').textContent, document.querySelector('.answer').innerText]"
    )
    page.js(f"document.querySelector('{card(1)} input[type=range]').focus()")
    page.press("Home")
    page.wait(
        f"document.querySelector('{card(1)} .slider span').textContent.startsWith('Learn from 1 of')"
    )
    page.wait(f"document.querySelector('.evidence dd b').textContent !== '{before[0]}'")
    assert page.js("document.querySelector('.answer').innerText") != before[1]
    page.wait(
        "document.querySelector('#status').textContent.startsWith('Learned from')"
    )  # for those who listen


def test_classes_are_renamed_and_pictures_looked_at_moved_and_removed(page, files):
    teach(page, files, greens=2)
    page.js(f"document.querySelector('{card(2)} .name').select()")
    page.type(LONG)
    page.press("Enter")
    page.wait(f"document.querySelector('{card(2)}').ariaLabel === '{LONG}'")
    page.click(f"{card(1)} .thumb")
    page.wait("document.querySelector('#viewer').open")
    assert page.js(
        "document.querySelector('#viewer').scrollWidth <= document.querySelector('#viewer').clientWidth"
    )
    page.click("#viewer-choices > :last-child")  # back to those without a class
    page.wait("document.querySelectorAll('.answer').length === 1")
    page.click(".answer")
    page.wait("document.querySelector('#viewer-verdict').textContent.length > 5")
    page.click("#viewer-remove")
    page.wait("document.querySelectorAll('.answer').length === 0")
    page.click(f"{card(1)} header .close")
    page.wait("document.querySelector('#sure').open")
    page.click("#sure .danger")
    page.wait("document.querySelectorAll('.class').length === 1")
    page.wait("document.querySelector('#outlook').hidden")


def test_what_cannot_be_done_is_said_on_the_page(page, files):
    def said(sentence):
        page.wait(f"document.querySelector('#problems').innerText.includes({sentence!r})")

    add_class(page, "red")
    page.choose("#pool-files", files / "red" / "0.png")
    page.wait("document.querySelector('#waiting').textContent.includes('two with a picture each')")
    page.choose("#pool-files", files / "notes.txt", files / "red" / "1.png", files / "huge.png")
    said("notes.txt cannot be used: not an image")
    said("huge.png is larger than 1 MB")
    page.wait("document.querySelectorAll('.answer').length === 2")  # the good one went through
    page.js("document.querySelector('#new').focus()")
    page.type("RED")
    page.press("Enter")
    said("There is a class RED already")
    page.choose("#pool-files", *[files / "red" / "0.png"] * 14)
    said("12 pictures already")
    page.wait("document.querySelectorAll('.answer').length === 12")
    page.click("#problems .close")


def test_everything_is_reached_and_named_for_the_keyboard_and_those_who_listen(page, files):
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
        "Add pictures to red",
        "Pictures of red to learn from",
        "Remove the class green",
    } <= set(names)


def test_a_folder_of_folders_becomes_classes(browser, url, files):
    browser.call("Network.clearBrowserCookies")
    browser.open(url, **SIZES["desk"])
    browser.wait("document.querySelector('#about').textContent")
    browser.drop("#classes-title", files / "red", files / "green")
    browser.wait(f"{count(1)} === '4 pictures' && {count(2)} === '4 pictures'")
    assert (
        browser.js("[...document.querySelectorAll('.name')].map((i) => i.value).join()")
        == "red,green"
    )


def test_light_and_dark_are_both_readable(browser, url):
    grounds = []
    for dark in (False, True):
        browser.open(url, dark=dark)
        browser.wait("document.querySelector('#about').textContent")
        texts = ("h1", ".top p", ".steps span", "#folders", ".add .main", "#over", ".or")
        for text in texts:
            assert browser.js(CONTRAST % text) >= 4.5, (dark, text)
        grounds.append(browser.js("getComputedStyle(document.body).backgroundColor"))
    assert grounds[0] != grounds[1]


# What has the focus, and whether that can be seen.
FOCUS = """(() => {
  const element = document.activeElement;
  const outlined = (one) => getComputedStyle(one).outlineStyle !== "none";
  const name = element.ariaLabel || element.textContent || element.type;
  return [name, outlined(element) || outlined(element.parentElement)];
})()"""

# Contrast of a text with the nearest ground behind it, by the formula of the Web Content Accessibility Guidelines.
CONTRAST = """(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((v) => v / 255);
  };
  const linear = (v) => (v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
  const light = (colour) => rgb(colour).reduce((sum, v, i) => sum + linear(v) * [.2126, .7152, .0722][i], .05);
  const element = document.querySelector("%s");
  let ground = element;
  while (getComputedStyle(ground).backgroundColor === "rgba(0, 0, 0, 0)") ground = ground.parentElement;
  const [a, b] = [light(getComputedStyle(element).color), light(getComputedStyle(ground).backgroundColor)];
  return Math.max(a, b) / Math.min(a, b);
})()"""
