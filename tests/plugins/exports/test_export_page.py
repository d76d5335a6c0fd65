"""The page in a real browser: nothing runs or loads but its own, everybody can read it, the keyboard does it all."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from browser import Browser
from export_story import EVIL, tell

from sagent.messages import user
from sagent.plugins.exports.export import export_text
from sagent.session.contents import MessageEntry, Opened, StoredMessage
from sagent.session.store import Session
from sagent.transcript.redaction import Redaction
from tests.depth import later

chromium = pytest.mark.needs("chromium")

CONTRAST = """
(() => {
  const parse = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const back = (node) => {
    for (; node; node = node.parentElement) {
      const color = parse(getComputedStyle(node).backgroundColor);
      if (color.length < 4 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const worst = [];
  for (const part of document.querySelectorAll("details")) part.open = true;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || node.closest("script, style, [hidden]")) continue;
    const style = getComputedStyle(node);
    const ink = parse(node.closest("svg") ? style.fill : style.color);
    const [a, b] = [light(ink), light(back(node))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) worst.push([ratio, node.tagName, node.className.toString(), node.textContent.slice(0, 40)]);
  }
  for (const part of document.querySelectorAll("details")) part.open = false;
  return worst;
})()
"""
UNNAMED = """
[...document.querySelectorAll("a, button, input, select, summary, img, [tabindex='0'], table, article, section")]
  .filter((node) => !(node.getAttribute("aria-label") || node.getAttribute("alt") || node.textContent.trim()
    || (node.labels && node.labels.length)
    || document.getElementById(node.getAttribute("aria-labelledby"))))
  .map((node) => node.outerHTML.slice(0, 100))
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("page")
    out = home / "page.html"
    out.write_bytes(export_text(tell(home / "story"), "html", Redaction())[0])
    return out


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


@pytest.fixture
def browser(chrome: Browser, page: Path) -> Browser:
    chrome.open(page)
    return chrome


class Tags(HTMLParser):
    """The tags of a page and their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_page_loads_and_escapes_everything(page: Path):
    text = page.read_text("utf-8")
    tags = Tags(text).found
    assert sum(tag == "script" for tag, _ in tags) == sum(tag == "style" for tag, _ in tags) == 1
    assert not [attrs for _, attrs in tags for name in attrs if name.startswith("on") or name == "style"]
    images = [attrs["src"] or "" for tag, attrs in tags if tag == "img"]
    assert len(images) == 1
    assert images[0].startswith("data:image/png;base64,")
    links = [attrs["href"] or "" for tag, attrs in tags if tag in ("a", "link")]
    assert all(link.startswith("#") for link in links)
    ids = [attrs["id"] for _, attrs in tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in links} <= set(ids)
    assert "\x1b" not in text


def test_headings_are_in_order(page: Path):
    levels = [int(tag[1]) for tag, _ in Tags(page.read_text("utf-8")).found if re.fullmatch(r"h[1-6]", tag)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_answer_then_conversation_then_cost(page: Path):
    text = page.read_text("utf-8")
    sections = re.findall(r'<section aria-labelledby="(\w+)"', text)
    assert sections == ["answer", "conversation", "cost", "tools_used", "advice", "audit", "facts"]
    answer = text[text.index('id="answer"') : text.index('id="conversation"')]
    assert "<p>All done.</p>" in answer


def test_child_folded_where_it_began(page: Path):
    text = page.read_text("utf-8")
    child = text[text.index('<details class="child">') :]
    summary, _, inside = child.partition("</summary>")
    assert "<strong>review</strong>" in summary
    assert "1 turn · 1 call" in summary
    agents = re.findall(r'<article[^>]* data-agent="([^"]*)"', text)
    place = agents.index("root/review")
    assert agents[place - 1 : place + 2] == ["root", "root/review", "root"]
    assert inside.index('data-agent="root/review"') < inside.index('data-agent="root"')


def test_calls_and_events_in_words(page: Path):
    text = re.sub(r"<[^>]+>", "", page.read_text("utf-8"))
    for words in ("Ran deploy --now", "Edited a.py +1 −1", "Write b.py denied", "Read a.py failed",
                  "The context was compacted: about 9000 tokens became 4000 (asked)",
                  "It failed: slow down (rate_limit)"):  # fmt: skip
        assert words in text, words


def test_times_count_from_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    start = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    times = [start + timedelta(seconds=each) for each in (0, 61, 3_725)]
    with Session.create_at(tmp_path / "s") as made, monkeypatch.context() as patched:
        patched.setattr("sagent.session.entries.datetime", SimpleNamespace(now=lambda _: times.pop(0)))
        made.log().append(Opened(made.id, "root", "/w", {}))
        for text in ("first", "second"):
            made.log().append(MessageEntry(StoredMessage.of(user(text), None)))
    page = export_text(made.path, "html", Redaction())[0].decode()
    assert re.findall(r'<time [^>]*title="([^"]*)">([^<]*)', page) == [
        ("2026-01-02 03:05:06 UTC", "1:01"), ("2026-01-02 04:06:10 UTC", "1:02:05")
    ]  # fmt: skip


@later
@chromium
@pytest.mark.needs("axe")
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
def test_axe_finds_nothing(browser: Browser, width: int, scheme: str):
    assert browser.findings(width, scheme) == []
    assert browser.run("document.documentElement.scrollWidth <= innerWidth") is True


@chromium
def test_browser_loads_nothing_external(browser: Browser, page: Path):
    assert [url for url in browser.requests() if not url.startswith("data:")] == [page.as_uri()]
    assert browser.complaints() == []
    assert browser.run("window.hacked") is None
    assert browser.run("document.documentElement.textContent.includes('window.hacked = 1')") is True
    browser.run(f"document.querySelector('article').innerHTML = {EVIL!r}")  # if escaping failed, the policy would hold
    browser.run("new Promise((done) => setTimeout(done, 200))")
    assert browser.run("window.hacked") is None
    assert any("Content Security Policy" in words for words in browser.complaints())


@later
@chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_enough_in_both_schemes(browser: Browser, scheme: str, tmp_path: Path):
    browser.scheme(scheme)
    assert browser.run(CONTRAST) == []
    assert browser.run(f"matchMedia('(prefers-color-scheme: {scheme})').matches") is True
    browser.picture(tmp_path / "page.png")
    assert (tmp_path / "page.png").read_bytes()[:4] == b"\x89PNG"


@later
@chromium
def test_elements_have_accessible_names(browser: Browser):
    assert browser.run(UNNAMED) == []
    assert browser.run("document.documentElement.lang") == "en"
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    roles = [node.get("role", {}).get("value") for node in nodes if not node.get("ignored")]
    for role in ("main", "banner", "contentinfo", "search", "searchbox", "combobox", "table", "article", "time"):
        assert role in roles, role


@chromium
def test_keyboard_reaches_everything(browser: Browser):
    browser.press("Tab")
    assert browser.run("document.activeElement.className") == "skip"
    browser.press("Enter")
    assert browser.run("location.hash") == "#conversation"
    seen = set()
    for _ in range(60):
        browser.press("Tab")
        seen.add(browser.run("document.activeElement.tagName + '#' + document.activeElement.id"))
        outline = "document.activeElement === document.body || getComputedStyle(document.activeElement).outlineStyle"
        assert browser.run(outline) in (True, "solid")
    assert {"INPUT#words", "SELECT#agent", "BUTTON#unfold", "SUMMARY#"} <= seen
    browser.run("document.activeElement.blur(); scrollTo(0, 0)")
    browser.press("j")
    first = browser.run("document.activeElement.id")
    browser.press("j")
    second = browser.run("document.activeElement.id")
    browser.press("k")
    assert (first, second, browser.run("document.activeElement.id")) == (
        "b0",
        "b2",
        "b0",
    )  # b1 is the birth of the child
    browser.press("o")
    assert browser.run("[...document.querySelectorAll('details')].every((part) => part.open)") is True
    browser.press("o")
    assert browser.run("[...document.querySelectorAll('details')].some((part) => part.open)") is False


@later
@chromium
def test_search_filters_and_opens(browser: Browser):
    shown = "[...document.querySelectorAll('article')].filter((each) => !each.hidden).length"
    everything = browser.run(shown)
    browser.press("/")
    for letter in "deploy --now":
        browser.press(letter)
    settle = "new Promise((done) => setTimeout(done, 300))"
    browser.run(settle)
    assert browser.run(shown) == 1
    assert browser.run("document.getElementById('count').textContent") == f"1 of {everything} shown"
    browser.press("Escape")
    browser.run(settle)
    assert browser.run(shown) == everything
    browser.run("document.querySelector('a[data-agent=\"root/review\"]').click()")
    assert 0 < browser.run(shown) < everything  # pyright: ignore[reportOperatorIssue]
    assert browser.run("document.getElementById('agent').value") == "root/review"


@later
@chromium
def test_narrow_and_without_script(page: Path):
    with Browser(width=500, script=False) as narrow:
        narrow.open(page)
        text = narrow.call("DOM.getDocument")["root"]["nodeId"]
        found = narrow.call("DOM.querySelectorAll", nodeId=text, selector="article")["nodeIds"]
        assert len(found) > 5
        size = narrow.call("Page.getLayoutMetrics")
        assert size["cssContentSize"]["width"] <= size["cssLayoutViewport"]["clientWidth"]
