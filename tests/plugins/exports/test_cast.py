"""A session as a recording of a terminal: what is in it, when, and what never is."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from export_story import KEY, PASSWORD, tell
from hypothesis import example, given
from hypothesis import strategies as st

from sagent.errors import UsageError
from sagent.plugins.exports.cast import MAX_IDLE_SECONDS, WIDTH, write_cast
from sagent.plugins.exports.folder import SharedFolder
from sagent.plugins.exports.steps import MessageStep, Turn
from sagent.plugins.exports.timeline import Timeline, TurnShown, read_timeline
from sagent.session.store import named_logs
from sagent.transcript.redaction import Redaction

STYLE = re.compile(r"\x1b\[[0-9;]*m")


def play(timeline: Timeline) -> tuple[dict[str, object], list[tuple[float, str]]]:
    head, *pieces = map(json.loads, write_cast(timeline, Redaction()))
    assert {kind for _, kind, _ in pieces} <= {"o"}
    return head, [(at, text) for at, _, text in pieces]


def test_recording_hides_secrets(tmp_path: Path) -> None:
    session = tell(tmp_path / "story")
    head, pieces = play(read_timeline(session, named_logs(session)))
    shown = STYLE.sub("", "".join(text for _, text in pieces))
    assert (head["version"], head["width"]) == (2, WIDTH)
    for words in ("› Fix it.", "Step 1.", "● Bash", "+1 -1", "✗ Write", "was denied", "critic", "All done."):
        assert words in shown
    assert KEY not in json.dumps(head) + shown
    assert PASSWORD not in shown
    assert "\x1b" not in shown


AT = st.integers(0, 4_000_000_000).map(lambda at: f"{2000 + at % 60}-01-02T03:04:{at % 60:02}.000001Z")
TEXT = st.text(max_size=300)
SHOWN = st.one_of(
    st.builds(lambda text, at: MessageStep("root", text, "", at), TEXT, AT | st.just("")),
    st.builds(lambda text, at: TurnShown(Turn("root", "m", text, (), "end", at), 1, ()), TEXT, AT),
)


SILENT = [TurnShown(Turn("root", "m", "", (), "end", f"200{year}-01-02T03:04:00.000001Z"), 1, ()) for year in (0, 1)]


@given(st.lists(SHOWN, max_size=8), TEXT)
@example(
    [*SILENT, MessageStep("root", "Hello.", "", "2002-01-02T03:04:00.000001Z")], ""
)  # years in which nothing was shown
def test_recorded_time_is_steady(shown: list[MessageStep | TurnShown], title: str) -> None:
    head, pieces = play(Timeline(title=title, shown=list(shown)))
    assert not any(ord(each) < 32 for each in str(head["title"]))
    times = [0.0, *(at for at, _ in pieces)]
    assert all(0 <= after - before <= MAX_IDLE_SECONDS + 0.1 for before, after in pairwise(times))
    assert "\x1b" not in STYLE.sub("", "".join(text for _, text in pieces))


def test_foreign_page_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("my site")
    with pytest.raises(UsageError, match=r"index\.html is not a list"):
        SharedFolder(tmp_path).add(Timeline(), "one", [("index.html", (b"<p>",))])
    assert [each.name for each in tmp_path.iterdir()] == ["index.html"]
    assert (tmp_path / "index.html").read_text() == "my site"


def test_shared_folder_keeps_earlier(tmp_path: Path) -> None:
    folder, page = SharedFolder(tmp_path / "public"), [("index.html", (b"<p>",))]
    first = Timeline(title="<b>One</b>")
    folder.add(first, "20260101-a", page)
    folder.add(Timeline(title="Two"), "what? é", page)
    folder.add(first, "20260101-a", page)
    index = (tmp_path / "public/index.html").read_text()
    assert index.count("/index.html") == 4
    assert "&lt;b&gt;One" in index
    assert 'href="what%3F%20%C3%A9/index.html"' in index
    assert (tmp_path / "public/20260101-a/index.html").stat().st_mode & 0o777 == 0o644


def test_same_name_not_overwritten(tmp_path: Path) -> None:
    session = tell(tmp_path / "story")
    folder = SharedFolder(tmp_path / "public")
    folder.add(Timeline(title="Other"), "story", [("index.html", (b"theirs",))])
    with pytest.raises(UsageError, match="another session"):
        folder.add(read_timeline(session, named_logs(session)), "story", [("index.html", (b"ours",))])
    assert (tmp_path / "public/story/index.html").read_bytes() == b"theirs"
