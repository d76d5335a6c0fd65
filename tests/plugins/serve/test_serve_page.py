"""The page of `sagent serve` in a real browser: what it shows, what keys do, and that nothing of theirs runs."""

import http.server
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
from page_story import Story, story_server

from tests.depth import later, slow
from tests.forks import Forks
from tests.listening import lasting_port
from tests.plugins.exports.browser import Browser

pytestmark = pytest.mark.needs("chromium")
Open: TypeAlias = Callable[..., Browser]


@pytest.fixture(scope="module")
def story(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    with story_server(forks, tmp_path_factory.mktemp("story")) as found:
        yield found


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


def until(browser: Browser, code: str, seconds: float = 30) -> object:
    """What an expression comes to, once it is true."""
    limit = time.monotonic() + seconds
    while not (found := browser.run(code)):
        assert time.monotonic() < limit, (code, browser.run("document.body.innerText"), browser.complaints())
        time.sleep(0.05)
    return found


@pytest.fixture
def page(chrome: Browser, story: Story) -> Open:
    """The page with a session that was begun with a text."""

    def opened(text: str, **wanted: object) -> Browser:
        made = story.http.post("/v1/sessions", json={"text": text, **wanted}).json()
        chrome.open(f"{story.url}/#token={story.token}")
        until(chrome, "status !== null")  # it shows some session by itself, and no other from then on
        chrome.run(f"show({made['id']!r}); 0")
        until(chrome, "live && status.title")
        return chrome

    return opened


SHOWN = "at('transcript').innerText"


def lines_of(browser: Browser) -> list[str]:
    """Return the texts on the page, sorted: parallel agents may be shown in another order than their events."""
    return sorted(line for line in str(browser.run(SHOWN)).splitlines() if not line.startswith("style"))


def test_session_shown_live_with_files(page: Open, story: Story) -> None:
    browser = page("Fix the division by zero")
    assert browser.run("location.hash.includes('token')") is False
    until(browser, f"{SHOWN}.includes('two of three')")
    until(browser, "status.state === 'idle'")
    assert browser.run("document.querySelectorAll('#transcript strong').length > 0")
    assert browser.run("document.querySelectorAll('#transcript details.child').length") == 1
    until(
        browser, "[...document.querySelectorAll('#agents .name')].map((each) => each.innerText).join() === 'root,style'"
    )
    assert browser.run("at('total').innerText.startsWith('$0.0')")
    browser.run("at('files').querySelector('summary').click(); 0")
    until(browser, "at('files').innerText.includes('calc.py')")
    browser.run("at('files').querySelector('button').click(); 0")
    until(browser, "at('files').querySelectorAll('ins').length === 1")
    before = lines_of(browser)
    browser.open(f"{story.url}/#{browser.run('current')}")  # by the key that it kept, from the log
    until(browser, f"{SHOWN}.includes('two of three')")
    limit = time.monotonic() + 30
    while (again := lines_of(browser)) != before:
        assert time.monotonic() < limit, (again, before)
        time.sleep(0.05)
    assert browser.complaints() == []
    assert not [each for each in browser.requests() if not each.startswith((story.url, "data:"))]


def test_command_output_tail_shown_live(page: Open, story: Story) -> None:
    browser = page("Count", permission_mode="full")
    shown = "document.querySelector('.call.running pre')?.textContent"
    until(browser, f"({shown} || '').includes('line 3')")
    assert browser.run(shown) == "line 1\nline 2\nline 3\n"
    story.http.post(f"/v1/sessions/{browser.run('current')}/interrupt", json={})
    until(browser, "status.state === 'idle'")


def test_model_output_never_runs(page: Open, story: Story) -> None:
    browser = page("evil <img src=x onerror=document.title='owned'>")
    until(browser, f"{SHOWN}.includes('alert(2)')")
    assert browser.run("document.querySelectorAll('#transcript :is(img, script, a)').length") == 0
    assert browser.run("document.title.includes('owned')") is not True or "<img" in str(browser.run("document.title"))
    assert browser.complaints() == []
    wall = "(() => { try { document.body.innerHTML = '<b>x</b>'; return 'set'; } catch (e) { return e.name; } })()"
    assert browser.run(wall) == "TypeError"  # raw text cannot become markup, not even by a mistake of ours


def test_stray_key_answers_nothing(page: Open, story: Story) -> None:
    browser = page("Ask me", permission_mode="ask")
    until(browser, "document.querySelector('.question') !== null")
    assert str(browser.run("document.querySelector('.question pre').innerText")).startswith("curl")
    browser.run("document.activeElement.blur(); 0")
    for key in ("y", "n", "Enter", " "):
        browser.press(key)
    browser.run("words.focus(); 0")
    for key in ("y", "n"):
        browser.press(key)
    assert browser.run("words.value") == "yn"
    browser.run("document.querySelector('.question input').focus(); 0")
    browser.press("n")
    time.sleep(0.2)
    name = browser.run("current")
    assert len(story.http.get(f"/v1/sessions/{name}/questions").json()) == 1
    browser.run("words.value = ''; document.activeElement.blur(); 0")
    browser.press("q")
    assert browser.run("document.activeElement.className") == "question"
    browser.press("n")
    until(browser, "document.querySelector('.question') === null")
    events = story.http.get(f"/v1/sessions/{name}/transcript").json()["events"]
    assert [each["reason"] for each in events if each["type"] == "denied"] == ["n"]


def test_diff_shown_before_approval(page: Open, story: Story) -> None:
    text = (story.cwd / "rate.py").read_text()
    browser = page("Change it", permission_mode="ask")
    until(browser, "document.querySelector('.question .diff') !== null")
    assert browser.run("document.querySelector('.question .row').innerText.split(/\\s+/).join(' ')") == "rate.py +63 −1"
    lines = "[...document.querySelectorAll('.question .diff :is(ins, del)')].map((each) => each.innerText)"
    assert browser.run(f"{lines}.length") == 64
    assert browser.run(f"{lines}.includes('+        return 0.0  # ⟨U+202E⟩gpj⟨U+200B⟩')")
    assert browser.run(f"{lines}.includes('+    return a / b <b>')")  # and is no markup
    colours = (
        "[...document.querySelectorAll('.question .diff :is(ins, del)')].map((each) => getComputedStyle(each).color)"
    )
    assert browser.run(f"new Set({colours}).size") == 2
    box = "document.querySelector('.question .diff')"
    for width in (1280, 360):
        browser.size(width)
        assert browser.run(f"{box}.scrollHeight > {box}.clientHeight && {box}.scrollWidth === {box}.clientWidth")
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    assert (story.cwd / "rate.py").read_text() == text
    browser.run("document.querySelector('.question').focus(); 0")
    browser.press("n")
    until(browser, "document.querySelector('.question') === null")
    assert browser.complaints() == []


def test_rule_allowed_only_by_its_button(page: Open, story: Story) -> None:
    browser = page("Make it", permission_mode="ask")
    until(browser, "document.querySelector('.question .longer') !== null")
    name = browser.run("current")
    [asked] = story.http.get(f"/v1/sessions/{name}/questions").json()
    assert asked["rules"] and browser.run("document.querySelector('.longer code').innerText") == ", ".join(
        asked["rules"]
    )
    buttons = browser.run("[...document.querySelectorAll('.longer button')].map((each) => each.innerText).join()")
    assert buttons == "Allow in this session,Allow always"
    browser.run("document.activeElement.blur(); 0")
    browser.press("q")
    assert browser.run("document.activeElement.className") == "question"  # and no button
    for key in ("s", "a", "Enter", " "):
        browser.press(key)
    assert len(story.http.get(f"/v1/sessions/{name}/questions").json()) == 1
    browser.run("document.querySelector('.longer button').click(); 0")
    until(browser, "document.querySelector('.question') === null")
    until(browser, "status.state === 'idle'")
    story.http.post(f"/v1/sessions/{name}/messages", json={"text": "Make it again"})
    until(browser, f"{SHOWN}.split('two of three').length === 3")  # and was not asked
    assert browser.complaints() == []


@later
def test_stale_click_answers_nothing(page: Open, story: Story) -> None:
    browser = page("Ask me", permission_mode="ask")
    until(browser, "document.querySelector('.question') !== null")
    name = browser.run("current")
    deny = "document.querySelectorAll('.question .row button')[1]"
    browser.run(f"{deny}.scrollIntoView(); moved = performance.now() + 60000; 0")  # cards have just moved
    box = f"{deny}.getBoundingClientRect()"
    x = float(str(browser.run(f"{box}.x + {box}.width / 2")))
    y = float(str(browser.run(f"{box}.y + {box}.height / 2")))
    assert browser.run(f"{deny}.contains(document.elementFromPoint({x}, {y}))")
    browser.click(x, y)
    time.sleep(0.2)
    assert len(story.http.get(f"/v1/sessions/{name}/questions").json()) == 1
    browser.run(f"{deny}.click(); 0")
    until(browser, "document.querySelector('.question') === null")


def test_inquiries_and_plans_are_answered(page: Open, story: Story) -> None:
    browser = page("Which colour")
    until(browser, "document.querySelector('.question') !== null")
    assert browser.run("document.querySelector('.question .plain').innerText") == "Which <b>?"
    browser.run("document.querySelectorAll('.question button')[1].click(); 0")
    until(browser, f"{SHOWN}.includes('So it is.')")
    browser = page("Which colours")
    until(browser, "document.querySelector('.question input[type=checkbox]') !== null")
    browser.run("for (const box of document.querySelectorAll('.question input[type=checkbox]')) box.checked = true; 0")
    browser.run("[...document.querySelectorAll('.question button')].at(-2).click(); 0")
    until(browser, f"{SHOWN}.includes('So it is.')")
    events = story.http.get(f"/v1/sessions/{browser.run('current')}/transcript").json()["events"]
    assert [each["text"] for each in events if each["type"] == "tool_finished"] == ["red\nblue"]
    browser = page("Plan it", permission_mode="plan")
    until(browser, "document.querySelector('.question strong') !== null")
    assert browser.run("document.querySelectorAll('.question script').length") == 0
    browser.run("document.querySelector('.question button').click(); 0")
    until(browser, f"{SHOWN}.includes('So it is.') && at('questions').hidden")
    assert browser.complaints() == []


@later
def test_late_foreign_answer_ignored(page: Open, story: Story) -> None:
    browser = page("Which colour")
    until(browser, "document.querySelector('.question') !== null")
    browser.run(
        """window.really = fetch; window.fetch = async (path, options) => {
            const answer = await really(path, options);
            if (String(path).includes('/questions/')) await new Promise((go) => { window.release = go; });
            return answer;
        }; 0"""
    )
    browser.run("document.querySelectorAll('.question button')[1].click(); 0")
    until(browser, "window.release !== undefined")
    made = story.http.post("/v1/sessions", json={"text": "Which colours"}).json()
    browser.run(f"show({made['id']!r}); 0")
    until(browser, "document.querySelector('.question input[type=checkbox]') !== null")
    browser.run("document.activeElement.blur(); window.fetch = really; release(); 0")
    until(browser, "document.activeElement === words")  # with which the answer is done
    assert browser.run("status.id") == made["id"]
    assert browser.run("document.querySelector('.question input[type=checkbox]') !== null")
    assert browser.complaints() == []


def test_keyboard_sends_stops_and_switches(page: Open, story: Story) -> None:
    story.http.post("/v1/sessions", json={})  # another one to go to
    browser = page("Good morning")
    until(browser, f"{SHOWN}.includes('Good.')")
    browser.run("words.focus(); 0")
    for letter in "Stream":
        browser.press(letter)
    browser.press("Enter")
    until(browser, f"{SHOWN}.includes('still being written')")
    assert browser.run("words.value") == ""
    browser.press("Escape")
    until(browser, "status.state === 'idle'")
    until(browser, f"{SHOWN}.includes('interrupted')")
    first = browser.run("document.activeElement.blur(); current")
    browser.press("k")
    assert browser.run("current") != first
    assert browser.run("document.activeElement.dataset.session === current")
    browser.press("j")
    until(browser, f"current === {first!r}")
    browser.press("/")
    assert browser.run("document.activeElement.id") == "words"


@later
def test_unwatched_page_resumes(page: Open, story: Story) -> None:
    browser = page("Good morning")
    until(browser, "status.state === 'idle'")
    until(browser, f"{SHOWN}.includes('Good.')")
    browser.run("pause(); 0")
    name = browser.run("current")
    story.http.post(f"/v1/sessions/{name}/messages", json={"text": "Good evening"})
    while story.http.get(f"/v1/sessions/{name}").json()["state"] != "idle":
        time.sleep(0.05)
    browser.run("document.dispatchEvent(new Event('visibilitychange')); 0")
    until(browser, f"{SHOWN}.includes('Good evening')")
    until(browser, f"{SHOWN}.split('Good.').length === 3")
    assert browser.run(f"{SHOWN}.split('Good morning').length") == 2


@pytest.mark.costly
@pytest.mark.needs("axe")
@pytest.mark.parametrize(
    ("width", "scheme"),
    [(1280, "light"), pytest.param(1280, "dark", marks=slow), pytest.param(360, "light", marks=slow), (360, "dark")],
)
def test_everybody_can_use_it(page: Open, width: int, scheme: str) -> None:
    browser = page("Fix the division by zero")
    until(browser, f"{SHOWN}.includes('two of three')")
    assert browser.findings(width, scheme) == []
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    for view in ("sessions", "details"):
        browser.run(f"view({view!r}); 0")
        assert browser.findings(width, scheme) == []


@later
@pytest.mark.costly
@pytest.mark.needs("axe")
@pytest.mark.parametrize(
    ("text", "scheme"),
    [
        ("Ask me", "light"),
        pytest.param("Ask me", "dark", marks=slow),
        pytest.param("Change it", "light", marks=slow),
        ("Change it", "dark"),
    ],
)
def test_everybody_can_approve(page: Open, text: str, scheme: str) -> None:
    browser = page(text, permission_mode="ask")
    until(browser, "document.querySelector('.question') !== null")
    assert browser.findings(360, scheme) == []


def test_page_asks_for_valid_token(chrome: Browser, story: Story) -> None:
    story.http.post("/v1/sessions", json={})  # there is one to be shown
    chrome.open(story.url)
    chrome.run("localStorage.clear(); 0")
    chrome.open(f"{story.url}/#token=wrong")
    until(chrome, "at('login').open && at('refused').innerText.includes('not a token')")
    field = "at('login').querySelector('input')"
    chrome.run(f"{field}.value = {story.token!r}; at('login').querySelector('button').click(); 0")
    until(chrome, "!at('login').open && sessions.length > 0")
    kept = chrome.call("Network.getCookies", urls=[story.url, "http://127.0.0.1:1"])
    assert kept["cookies"] == []
    assert chrome.run("localStorage.getItem('key')") not in ("", story.token)


@later
def test_other_ports_get_nothing(chrome: Browser, story: Story, page: Open) -> None:
    page("Fix the division by zero")
    seen: list[str] = []

    class Neighbour(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(f"{self.path} {self.headers}")
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<title>other</title><body>other")

        def log_message(self, format: str, *_: object) -> None:  # noqa: A002 -- as there
            del format

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Neighbour) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        chrome.open(f"http://127.0.0.1:{server.server_address[1]}/")
        until(chrome, "document.title === 'other'")
        stored = chrome.run("JSON.stringify(localStorage) + document.cookie")
        sent = chrome.run(
            f"fetch('{story.url}/v1/sessions', {{credentials: 'include'}}).then(() => 'read', () => 'no')"
        )
        server.shutdown()
    assert stored == "{}"
    assert sent != "read"
    assert seen
    assert "cookie" not in "".join(seen).lower()


@later
def test_page_saved_with_key(page: Open) -> None:
    browser = page("Fix the division by zero")
    until(browser, "status.state === 'idle'")
    browser.run(
        "window.saved = []; "
        "URL.createObjectURL = (blob) => { blob.text().then((text) => saved.push(text)); return '#'; }; 0"
    )
    browser.run("at('as-page').click(); 0")
    until(browser, "saved.length === 1")
    assert browser.run("saved[0].startsWith('<!doctype html>')")


def test_stream_resumes_after_cut(page: Open, story: Story) -> None:
    browser = page("Fix the division by zero")
    until(browser, f"{SHOWN}.includes('two of three')")
    shown = lines_of(browser)
    browser.run("source.close(); connect(); 0")
    story.http.post(f"/v1/sessions/{browser.run('current')}/actions", json={"type": "mode", "permission_mode": "plan"})
    until(browser, "status.permission_mode === 'plan'")
    assert lines_of(browser) == shown


@later
def test_page_adopts_new_server(forks: Forks, chrome: Browser, tmp_path: Path) -> None:
    port, browser = str(lasting_port()), chrome
    with story_server(forks, tmp_path / "one", "--port", port) as first:
        first.http.post("/v1/sessions", json={"text": "Hello first"})
        browser.open(f"{first.url}/#token={first.token}")
        until(browser, "live && status?.title === 'Hello first'")
        one = browser.open_tab(f"{first.url}/")
        until(browser, "live && status?.title === 'Hello first'")
    until(browser, "!at('toast').hidden && at('toast').innerText.includes('does not respond')")
    with story_server(forks, tmp_path / "two", "--port", port) as second:
        second.http.post("/v1/sessions", json={"text": "Hello second"})
        until(browser, "at('login').open")
        other = browser.switch(one)
        browser.call("Page.bringToFront")
        until(browser, "at('login').open")
        browser.run(f"enter({second.token!r}); 0")
        until(browser, "live && status?.title === 'Hello second' && !at('login').open")
        assert "Hello first" not in str(browser.run("document.body.innerText"))
        browser.switch(other)
        browser.call("Page.bringToFront")
        until(browser, "live && status?.title === 'Hello second' && !at('login').open")
