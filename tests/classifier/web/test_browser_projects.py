"""Project files, folders, the camera and many photos in a real browser."""

from __future__ import annotations

import io
import json
import shutil
import struct
import zipfile

import pytest
from browser import PROGRAM, Browser
from support import noise_png

from anyshot.classifier.web.app import make_app
from anyshot.classifier.web.limits import Limits

pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="Chromium is not installed (Debian's package: chromium)"
)
PHONE = {"width": 390, "height": 844, "phone": True}
STATE = "fetch('/api/state').then((r) => r.json())"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def url(served, reader):
    with served(make_app(reader, Limits(megabytes=1, pictures=80, visitors=100))) as url:
        yield url


@pytest.fixture
def page(browser, url):
    """The page of a new visitor at the width of a phone."""
    browser.call("Network.clearBrowserCookies")
    browser.open(url, **PHONE)
    browser.wait("document.querySelector('#about').textContent")
    yield browser
    assert browser.complaints() == []
    assert browser.js("document.documentElement.scrollWidth") <= PHONE["width"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """train/red/*.png, train/green/*.png and 30 photos in new/."""
    folder = tmp_path_factory.mktemp("photos")
    for name, channels in {
        "train/red": [0] * 3,
        "train/green": [1] * 2,
        "new": [0, 1] * 15,
    }.items():
        (folder / name).mkdir(parents=True)
        for i, channel in enumerate(channels):
            file = noise_png(channel, i + 100 * (name == "new"))
            (folder / name / f"{i:02d}.png").write_bytes(file)
    for name in (".hidden", "Thumbs.db"):
        (folder / "train/red" / name).write_bytes(b"")
    return folder


@pytest.fixture
def taught(page, folder):
    """The page after two folders were chosen with the buttons."""
    page.choose("#folder", folder / "train")
    page.wait("document.querySelectorAll('.class').length === 2")
    page.wait(
        "!document.querySelector('#accuracy').hidden && document.querySelector('#work').hidden"
    )
    page.choose("#pool-folder", folder / "new")
    page.wait("document.querySelector('#pool-count').textContent === '30'")
    page.wait("document.querySelector('#work').hidden")
    return page


def test_photos_of_a_folder_keep_the_order_of_their_names(taught):
    names = "(photos) => photos.map((photo) => photo.name)"
    groups = taught.js(
        f"{STATE}.then((s) => [...s.classes.map((c) => c.pictures), s.pool].map({names}))"
    )
    assert [len(group) for group in groups] == [2, 3, 30]
    assert groups == [sorted(group) for group in groups]
    assert taught.js(
        "document.querySelector('#refused').hidden"
    )  # files of the system are no photos


def notices(page):
    return page.js("document.querySelector('#problems').innerText")


def test_folders_of_several_classes_are_one_upload(page, tmp_path):
    for name in ("a  b", "c"):  # the page writes one space
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(3):
            (tmp_path / "photos" / name / f"{i}.png").write_bytes(noise_png(0, i))
    (tmp_path / "photos" / "notes.txt").write_text("next to the classes")
    counted = "new MutationObserver(() => (window.most = Math.max(window.most ?? 0, "
    counted += "document.querySelector('#progress').max))).observe("
    page.js(f"{counted}document.querySelector('#reading'), {{childList: true}})")
    page.choose("#folder", tmp_path / "photos")
    counts = "[...document.querySelectorAll('.class .count')].map((c) => c.textContent).join()"
    page.wait(f"{counts} === '3 photos,3 photos' && document.querySelector('#work').hidden")
    assert page.js("window.most") == 6
    assert "1 file next to" in notices(page)
    assert page.js("[...document.querySelectorAll('.name')].map((i) => i.value)") == ["a b", "c"]


def make_classes(folder, *names):
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "0.png").write_bytes(noise_png(0, len(name)))


def test_hidden_folders_are_no_classes_chosen_or_dropped(page, tmp_path):
    make_classes(tmp_path / ".photos", "class 10", "class 9", ".git")
    made = "[...document.querySelectorAll('.name')].map((i) => i.value)"
    for add, target in ((page.choose, "#folder"), (page.drop, "#classes-title")):
        add(target, tmp_path / ".photos")
        page.wait(f"{made}.length > 1 && document.querySelector('#work').hidden")
        assert page.js(made) == ["class 9", "class 10"]
        page.click("#undo")
        page.wait(f"{made}.length === 0")


def test_a_folder_without_photos_is_named_as_such(page, tmp_path):
    (tmp_path / ".DS_Store").write_bytes(b"")
    for selector in ("#folder", "#pool-folder"):
        page.choose(selector, tmp_path)
        page.wait("document.querySelector('#problems').innerText")
        assert "no photos" in notices(page)
        page.js("document.querySelector('#problems').replaceChildren()")


def test_a_folder_with_too_many_classes_is_refused_as_a_whole(page, tmp_path):
    make_classes(tmp_path / "photos", *(f"class {i}" for i in range(51)))
    page.choose("#folder", tmp_path / "photos")
    page.wait("document.querySelector('#problems').innerText")
    assert "51 classes" in notices(page)
    assert "50" in notices(page)
    assert page.js("document.querySelectorAll('.class').length") == 0


def test_files_that_cannot_be_used_are_listed_with_their_class(page, tmp_path):
    make_classes(tmp_path / "photos", "a", "b")
    (tmp_path / "photos" / "b" / "0.png").write_text("no photo")
    page.choose("#folder", tmp_path / "photos")
    page.wait("document.querySelectorAll('#refused-list li').length === 1")
    listed = page.js("document.querySelector('#refused-list').textContent")
    assert listed.startswith("b: 0.png cannot be used")


def test_the_mix_ups_of_many_classes_cover_nothing(page, url, tmp_path):
    for name in range(20):
        (tmp_path / f"class {name:02d}").mkdir()
        for i in range(2):
            (tmp_path / f"class {name:02d}" / f"{i}.png").write_bytes(noise_png(name % 3, i + name))
    page.choose("#folder", tmp_path)
    page.wait("document.querySelectorAll('.class').length === 20")
    page.wait("document.querySelector('#work').hidden && !document.querySelector('#mixups').hidden")
    page.click("#jump a:last-child")  # on a phone, the classes are a long way
    place = "Math.round(document.querySelector('#answers').getBoundingClientRect().top)"
    page.wait(f"{place} >= 0 && {place} < 800")
    for width in (390, 1280):
        page.open(url, **(PHONE if width == 390 else {}))
        page.wait("document.querySelectorAll('.class').length === 20")
        page.js("(document.querySelector('#mixups').open = true)")
        page.wait("document.querySelectorAll('#mixup-table tbody tr').length === 20")
        box = "document.querySelector('{}').getBoundingClientRect()"
        assert page.js(f"{box.format('#mixups')}.right") <= width
        assert page.js(f"{box.format('main > .left')}.right") <= width
        overlap = f"{box.format('main > .left')}.right > {box.format('main > .right')}.left"
        assert page.js(overlap) == (width == 390)  # one column
    page.open(url, **PHONE)


def test_a_folder_of_train_and_test_is_refused(page, folder, tmp_path):
    for part in ("train", "test"):
        shutil.copytree(folder / "train", tmp_path / "photos" / part)
    page.choose("#folder", tmp_path / "photos")
    page.wait("document.querySelector('#problems').innerText")
    assert "train" in notices(page)
    assert "test" in notices(page)
    assert page.js("document.querySelectorAll('.class').length") == 0


def names(page):
    return page.js("[...document.querySelectorAll('#answer-list small')].map((s) => s.textContent)")


def choose_option(page, selector, value):
    page.js(
        f"(() => {{ const s = document.querySelector('{selector}'); s.value = '{value}';"
        " s.dispatchEvent(new Event('change')); })()"
    )


def test_answers_have_pages_filters_and_an_order(taught):
    state = taught.js(STATE)
    assert [(c["name"], len(c["pictures"])) for c in state["classes"]] == [("green", 2), ("red", 3)]
    assert len(names(taught)) == 24
    assert taught.js("document.documentElement.scrollHeight") < 8000  # 30 photos on a phone
    taught.js("document.querySelector(\"[aria-label='Next page']\").click()")
    assert len(names(taught)) == 6
    edge = "document.querySelector('{}').getBoundingClientRect().{}"
    links, first = edge.format("#jump", "bottom"), edge.format("#answer-list .answer", "top")
    assert taught.js(f"{first} >= {links}")  # the first photo is not below the links
    taught.click("[aria-label='Previous page']")
    taught.click("[aria-label='Next page']")
    choose_option(taught, "#order", "name")
    assert names(taught) == [f"{i:02d}.png" for i in range(24)]
    red = state["classes"][1]["id"]
    choose_option(taught, "#filter", f"class {red}")
    is_red = [row for row in state["pool"] if row["probabilities"][red] > 0.5]
    assert set(names(taught)) == {row["name"] for row in is_red if not row["unknown"]}
    choose_option(taught, "#filter", "all")
    taught.js("document.querySelector('#find').focus()")
    taught.type("07")
    assert names(taught) == ["07.png"]


def test_several_photos_are_moved_and_undone_together(taught):
    choose_option(taught, "#order", "name")
    for n in (1, 2):
        taught.click(f".item:nth-child({n}) .tick")
    bar = "document.querySelector('#answer-list .bar-of-selected')"
    assert taught.js(f"{bar}.innerText").startswith("2 photos selected")
    edge = "document.querySelector('{}').getBoundingClientRect().{}"
    tick = ".item:nth-child(6) .tick"
    taught.js(f"scrollBy(0, {edge.format(tick, 'bottom')} - innerHeight + 40)")
    taught.js(f"document.querySelector('{tick}').focus()")  # the bar does not cover it
    assert taught.js(f"{edge.format(tick, 'bottom')} <= {bar}.getBoundingClientRect().top")
    assert taught.js(f"{bar}.querySelector('select + button').disabled")  # no class is chosen yet
    targets = taught.js(f"[...{bar}.querySelectorAll('option')].map((o) => o.text)")
    assert targets == ["Move to …", "green", "red"]  # not where the photos are
    taught.js(f"{bar}.querySelector('select').focus()")
    taught.press("ArrowDown")
    assert taught.js(f"{bar}.querySelector('select').selectedOptions[0].text") == "green"
    taught.press("Tab")
    assert taught.js("document.querySelector('#pool-count').textContent") == "30"
    taught.press("Enter")
    taught.wait("document.querySelector('#pool-count').textContent === '28'")
    taught.wait("document.activeElement.ariaLabel === 'Select 02.png'")
    assert [row["name"] for row in taught.js(STATE)["classes"][0]["pictures"]][-2:] == [
        "00.png",
        "01.png",
    ]
    assert taught.js("document.querySelector('#undo').ariaLabel") == "Undo: put 2 photos into green"
    taught.js("document.querySelector('#undo').focus()")
    taught.press("Control+z")
    taught.wait("document.querySelector('#pool-count').textContent === '30'")
    taught.click("#redo")
    taught.wait("document.querySelector('#pool-count').textContent === '28'")
    taught.wait("document.activeElement.id === 'undo'")  # nothing is left to redo
    taught.press("Enter")
    taught.wait("document.querySelector('#pool-count').textContent === '30'")
    taught.click(".item .tick")
    taught.click("#answer-list .bar-of-selected .quiet")  # all 30
    taught.click("#answer-list .bar-of-selected .danger")
    taught.wait("document.querySelector('#pool-count').textContent === ''")
    taught.wait("document.activeElement.id === 'answers-title'")


def test_many_files_that_cannot_be_used_give_one_notice_and_a_list(page, tmp_path):
    files = [tmp_path / f"{i}.txt" for i in range(5)]
    for file in files:
        file.write_text("no photo")
    page.choose("#pool-files", *files)
    page.wait("document.querySelectorAll('#refused-list li').length === 5")
    assert page.js("document.querySelectorAll('#problems > *').length") == 1
    assert notices(page).startswith("5 files cannot be used")


def test_files_that_were_not_sent_are_listed_too(page, folder):
    page.js("window.fetch = async () => { throw new TypeError('network') }")
    page.choose("#pool-files", folder / "new" / "00.png", folder / "new" / "01.png")
    page.wait("document.querySelectorAll('#refused-list li').length === 2")
    assert "2 files" in page.js("document.querySelector('#refused-title').textContent")
    assert "01.png was not sent" in page.js("document.querySelector('#refused-list').textContent")
    assert page.js("document.querySelector('#work').hidden")


def test_a_page_whose_photos_are_gone_says_so(taught):
    taught.js("fetch('/api/state', { method: 'DELETE' }).then(() => 1)")
    taught.click("#suggestions .choice")
    taught.wait("document.querySelectorAll('.class').length === 0")
    assert "are gone" in notices(taught)
    assert "reload" not in notices(taught)


def test_a_label_that_looks_wrong_is_kept_or_its_photo_moved(taught):
    taught.js(f"import('/static/state.js').then((m) => {SUSPECT})")
    taught.click("#labels summary")
    buttons = "[...document.querySelectorAll('#suspects .choice')]"
    assert taught.js(f"{buttons}.map((b) => b.innerText)") == ["Move to red", "Keep green"]
    taught.js(f"{buttons}[1].focus()")
    taught.press("Enter")
    taught.wait("document.querySelector('#labels').hidden")
    assert (
        taught.js("document.querySelector('#undo').ariaLabel") == "Undo: keep the label of 1 photo"
    )
    assert taught.js("document.activeElement.id") == "classes-title"
    taught.js(f"import('/static/state.js').then((m) => {SUSPECT})")
    taught.js(f"{buttons}[0].click()")
    taught.wait(f"{STATE}.then((s) => s.classes[1].pictures.length === 4)")


def test_filters_without_photos_are_not_offered(taught):
    options = taught.js("[...document.querySelectorAll('#filter option')].map((o) => o.innerText)")
    assert "All photos (30)" in options
    assert not any(o.startswith("Also learned from") for o in options)


def test_mix_ups_open_their_photos(taught):
    taught.click("#mixups summary")
    taught.wait("document.querySelectorAll('#mixup-table td button').length")
    label = taught.js("document.querySelector('#mixup-table td button').ariaLabel")
    taught.click("#mixup-table td button")
    taught.wait("document.querySelector('#browse').open")
    assert taught.js("document.activeElement.id") == "browse-title"
    assert "left out" in taught.js("document.querySelector('#browse').innerText")
    shown = taught.js("document.querySelectorAll('#browse .answer').length")
    assert label.startswith(f"{shown} photo")
    taught.click("#browse .answer")
    taught.wait("document.querySelector('#viewer').open")
    taught.press("Escape")
    taught.press("Escape")
    taught.wait("!document.querySelector('#browse').open")
    assert taught.js(f"document.activeElement.ariaLabel === {json.dumps(label)}")
    taught.press("Enter")
    taught.click("#browse .answer")
    taught.click("#viewer-choices > :last-child")  # the table is drawn again
    # green has one photo left, which cannot be left out: there is nothing to show any more
    taught.wait("!document.querySelector('#browse').open")
    assert taught.js("document.querySelector('#mixups').hidden")
    taught.wait("document.activeElement.id === 'classes-title'")
    taught.click("#undo")
    red = "#mixup-table tbody tr:last-child .right button"  # three photos
    taught.wait(f"document.querySelector('{red}')?.checkVisibility()")
    taught.click(red)
    taught.click("#browse .answer")
    taught.click("#viewer-choices > :last-child")
    taught.wait("document.querySelectorAll('#browse .answer').length === 2")
    taught.press("Escape")
    taught.wait(f"document.activeElement.matches('{red}')")


def test_removal_is_confirmed_with_the_focus_on_keep(taught):
    taught.js("document.querySelector('.class header .close').focus()")
    taught.press("Enter")
    taught.wait("document.querySelector('#sure').open")
    assert taught.js("document.activeElement.textContent") == "Keep"
    assert "Enter keeps" in taught.js("document.querySelector('#sure-note').textContent")
    taught.press("Enter")
    taught.wait("!document.querySelector('#sure').open")
    assert taught.js("document.activeElement.ariaLabel") == "Remove the class green"
    assert taught.js("document.querySelectorAll('.class').length") == 2


def test_the_choices_say_what_they_cost(taught):
    taught.click("#choices summary")
    cost = "document.querySelector('#threshold-cost').textContent"
    taught.wait(f"{cost}.includes('by mistake')")
    before = taught.js(cost)
    taught.js("document.querySelector('#threshold').focus()")
    taught.press("Home")
    taught.wait(f"{cost} !== {json.dumps(before)}")
    taught.wait(f"{STATE}.then((s) => s.threshold === 0.99)")
    taught.click("#prior-given")
    taught.wait(f"{STATE}.then((s) => s.as_given)")


def test_the_camera_adds_photos_to_a_class(taught):
    taught.click(".class .camera")
    taught.wait("document.querySelector('#camera-video').videoWidth > 0")
    assert taught.js("document.activeElement.id") == "camera-take"
    for n in (3, 4):
        taught.press("Enter")
        taught.wait(f"{STATE}.then((s) => s.classes[0].pictures.length === {n})")
    taught.js("window.stream = document.querySelector('#camera-video').srcObject")
    taught.press("Escape")
    taught.wait("document.querySelector('#camera-video').srcObject === null")
    assert taught.js("stream.getTracks().every((track) => track.readyState === 'ended')")
    taught.click("#undo")
    taught.wait(f"{STATE}.then((s) => s.classes[0].pictures.length === 2)")


def test_a_double_click_opens_the_camera_once(taught):
    taught.js(
        """(() => {
          const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
          window.streams = [];
          navigator.mediaDevices.getUserMedia = async (wanted) => {
            streams.push(await ask(wanted));
            return streams.at(-1);
          };
          for (let i = 0; i < 2; i += 1) document.querySelector('.class .camera').click();
        })()"""
    )
    taught.wait("document.querySelector('#camera-video').videoWidth > 0")
    taught.press("Escape")
    taught.wait("document.querySelector('#camera-video').srcObject === null")
    assert taught.js("streams.length") == 1  # another one would never be stopped


def test_example_pictures_are_one_click(page):
    page.click("#examples")
    page.wait("document.querySelectorAll('.answer .verdict b').length > 5")
    assert page.js("document.querySelector('#try').hidden")
    page.wait("document.activeElement.id === 'classes-title'")  # the button is gone
    page.click("#undo")  # all of them are one change
    page.wait("!document.querySelector('#try').hidden")


def test_the_keyboard_skips_the_classes(taught, url):
    taught.open(url)  # on a desktop, where the links are only for the keyboard
    taught.wait("document.querySelectorAll('.answer').length")
    seen = "getComputedStyle(document.querySelector('#jump')).clipPath"
    assert taught.js(seen) != "none"
    taught.js("document.querySelector('#mixups summary').focus()")
    taught.press("Tab")
    taught.press("Tab")
    assert taught.js(seen) == "none"
    taught.press("Enter")
    taught.press("Tab")
    assert taught.js("document.activeElement.id") == "pool-files"
    taught.open(url, **PHONE)


def test_spoken_names_contain_the_visible_words(taught):
    taught.js(f"import('/static/state.js').then((m) => {SUSPECT})")
    taught.wait("!document.querySelector('#labels').hidden")
    taught.js("document.querySelector('#labels').open = true")
    taught.js("document.querySelector('#answer-list .pager').hidden = false")
    differing = taught.js(
        """[...document.querySelectorAll("button[aria-label], a[aria-label]")]
          .filter((control) => control.checkVisibility())
          .map((control) => [control.ariaLabel, control.innerText])
          .map(([spoken, seen]) => [spoken, seen.replace(/[^\\p{L} ]/gu, "").trim()])
          .filter(([spoken, seen]) => !spoken.toLowerCase().includes(seen.toLowerCase()))"""
    )
    assert differing == []


# The first photo of the first class looks like the second class.
SUSPECT = """m.take({ ...m.now(), suspects: [
  { id: m.now().classes[0].pictures[0].id, suggested: m.now().classes[1].id }] })"""

MANY = """import('/static/state.js').then(({ take, now }) => {
  const classes = Array.from({ length: 50 }, (_, i) => ({ id: `c${i}`, name: `class ${i}`, used: 1, pictures: [] }));
  const pool = Array.from({ length: 10000 }, (_, i) => ({
    id: `p${i}`, name: `${i}.jpg`, probabilities: { [`c${i % 50}`]: 0.6, c1: 0.1 }, score: 0.1, unknown: false,
  }));
  take({ ...now(), classes, pool });
})"""  # noqa: E501


def test_of_ten_thousand_photos_one_page_is_in_the_document(page):
    page.js(MANY)
    assert page.js("document.querySelector('#pool-count').textContent") == "10000"
    assert page.js("document.querySelectorAll('#answer-list img').length") == 24
    assert page.js("document.querySelectorAll('*').length") < 4000
    assert page.js("document.querySelector('.pager').innerText").split("\n")[1] == "1–24 of 10000"
    choose_option(page, "#filter", "class c7")
    assert names(page)[0] == "7.jpg"
    assert "1–24 of 200" in page.js("document.querySelector('.pager').innerText")


OPEN_AGAIN = """(async () => {
  const file = await (await fetch("/api/project")).blob();
  await fetch("/api/state", { method: "DELETE" });
  const { refresh } = await import("/static/state.js");
  await refresh();
  const transfer = new DataTransfer();
  transfer.items.add(new File([file], "project.zip"));
  const input = document.querySelector("#open-project");
  input.files = transfer.files;
  input.dispatchEvent(new Event("change"));
})()"""


def content(state):
    """What a project restores, without the ids."""
    keys = {c["id"]: c["name"] for c in state["classes"]}
    classes = [
        (c["name"], c["used"], [row["name"] for row in c["pictures"]]) for c in state["classes"]
    ]
    answers = {
        row["name"]: {keys[key]: round(p, 6) for key, p in row["probabilities"].items()}
        for row in state["pool"]
    }
    return classes, answers, state["as_given"], round(state["threshold"], 6)


def test_a_project_is_opened_again_as_it_was(taught):
    red = taught.js(STATE)["classes"][1]["id"]
    taught.js(
        "import('/static/state.js').then(async ({ change }) => {"
        f" await change('PATCH', '/api/classes/{red}/used', {{ used: 2 }});"
        " await change('PATCH', '/api/prior', { as_given: true });"
        " await change('PATCH', '/api/threshold', { threshold: 0.3 });"
        " const { classes: [{ pictures: [{ id }] }] } = await (await fetch('/api/state')).json();"
        " await change('POST', '/api/confirm', { photos: [id] }); })"
    )
    saved = "fetch('/api/project').then((r) => r.text())"  # JSON in a zip file without compression
    confirmed = f"{saved}.then((text) => text.split('\"confirmed\": true').length - 1)"
    assert taught.js(confirmed) == 1
    before = content(taught.js(STATE))
    taught.js(OPEN_AGAIN)
    taught.wait(
        "document.querySelector('#pool-count').textContent === '30'"
        " && document.querySelector('#work').hidden"
    )
    taught.wait(f"{STATE}.then((s) => s.classes[1].used === 2)")
    assert content(taught.js(STATE)) == before
    assert taught.js(confirmed) == 1
    taught.click("#undo")  # the whole project
    taught.wait("document.querySelectorAll('.class').length === 0")


def project(files, **changes):
    """A project file; ``files`` are the contents of photos by path."""
    rows = [{"file": path, "name": path, "class": 0} for path in files]
    values = {
        "format": "anyshot project 1",
        "classes": [{"name": "red", "used": 1}],
        "photos": rows,
        "as_given": False,
        "threshold": None,
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            archive.writestr(path, data)
        archive.writestr("project.json", json.dumps({**values, **changes}))
    return file.getvalue()


def lying_about_its_size(data, size):
    """The zip file with another unpacked size of its first file, in both places."""
    changed = bytearray(data)
    struct.pack_into("<I", changed, data.index(b"PK\x03\x04") + 22, size)
    struct.pack_into("<I", changed, data.index(b"PK\x01\x02") + 24, size)
    return bytes(changed)


GOOD = {"a.png": noise_png(0, 0)}
BOMB = {"bomb.png": bytes(5_000_000)}
HOSTILE = {
    "no zip": (b"hello", "not a zip file"),
    "cut": (project(GOOD)[60:], "cannot be read"),
    "other": (project(GOOD, format="another"), "another kind (another)"),
    "no photos": (project(GOOD, photos=[{"file": "b.png", "class": 0}]), "are missing"),
    "no class": (project(GOOD, photos=[{"file": "a.png", "class": 7}]), "are missing"),
    "names": (project(GOOD, classes=[{"name": "a"}, {"name": "A"}]), "already a class A"),
    "many": (project(GOOD, photos=81 * [{"file": "a.png", "class": 0}]), "81 photos"),
    "bomb": (project(BOMB), "larger than 1 MB"),
    "hidden bomb": (lying_about_its_size(project(BOMB), 900_000), "larger than announced"),
    "no image": (project({"a.png": b"no image"}), "a.png cannot be used"),
}


def test_hostile_project_files_are_refused_with_a_reason(page, tmp_path):
    for name, (data, reason) in HOSTILE.items():
        (tmp_path / name).write_bytes(data)
        page.choose("#open-project", tmp_path / name)
        page.wait(f"document.querySelector('#problems').innerText.includes({reason!r})")
        page.js("document.querySelector('#problems').replaceChildren()")
    state = page.js(STATE)
    assert [len(c["pictures"]) for c in state["classes"]] in ([], [0])


def test_paths_in_a_project_file_are_only_names(page, tmp_path):
    (tmp_path / "p.zip").write_bytes(project({"../../etc/<b>x</b>.png": noise_png(0, 0)}))
    page.choose("#open-project", tmp_path / "p.zip")
    page.wait(f"{STATE}.then((s) => s.classes[0]?.pictures.length === 1)")
    assert page.js(STATE)["classes"][0]["pictures"][0]["name"] == "../../etc/<b>x</b>.png"
    page.wait("document.querySelectorAll('.thumb').length === 1")
    assert not page.js("[...document.querySelectorAll('b')].some((b) => b.textContent === 'x')")


def test_a_project_that_was_unpacked_and_packed_again_opens(page, tmp_path):
    with zipfile.ZipFile(io.BytesIO(project(GOOD))) as made:
        files = {name: made.read(name) for name in made.namelist()}
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:  # as Finder and Explorer do it
        archive.writestr("__MACOSX/my project/._project.json", b"not JSON")
        for name, data in files.items():
            archive.writestr(f"my project/{name}", data)
    page.choose("#open-project", tmp_path / "p.zip")
    page.wait(f"{STATE}.then((s) => s.classes[0]?.pictures.length === 1)")
    assert page.js(STATE)["classes"][0]["pictures"][0]["name"] == "a.png"
