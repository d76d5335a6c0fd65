"""What an export tells of changed files: the diffs of results, in a page and in Markdown, without secrets."""

from pathlib import Path

import pytest

from sagent.agent import Agent, Resources
from sagent.codec import encode_result_part
from sagent.engine.state import MAX_DIFF_CHARS
from sagent.messages import Message, Text, ToolResult
from sagent.plugins.audit.verify import verify
from sagent.plugins.exports.export import export_bundle, export_text
from sagent.rewind.plan import REWIND
from sagent.session.contents import MessageEntry, Opened, StoredMessage, Unknown
from sagent.session.entries import read_body
from sagent.session.log import FileLog
from sagent.session.store import Session
from sagent.session.touches import ABSENT, Snapshot, Touch, Touched
from sagent.testing import ScriptedModel
from sagent.tool import Workspace
from sagent.tools import Edit, Read
from sagent.transcript.redaction import Redaction
from tests.messages import call

SECRET = "sk-ant-api03-" + "REDACTME0123456789abcdef"


async def edited(cwd: Path, log: FileLog, old: str, new: str) -> None:
    calls = (call("1", "Read", file_path="a.txt"), call("2", "Edit", file_path="a.txt", old_string=old, new_string=new))
    resources = Resources(log=log, workspace=Workspace(cwd))
    agent = Agent(ScriptedModel(calls, "done"), tools=(Edit(), Read()), resources=resources)
    await agent.run("edit it")
    await agent.aclose()


async def test_edit_diff_logged_and_on_page(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"first\nkey = {SECRET}\nmiddle\nlast\n")
    with Session.create_at(tmp_path / "session") as session:
        session.log().append(Opened(session.id, "root", str(tmp_path), {}))
        await edited(tmp_path, session.log(), "middle", "centre")
        diffs = [read_body(entry)["diff"] for entry in session.log().entries() if "diff" in read_body(entry)]
    assert diffs == [f"--- a/a.txt\n+++ b/a.txt\n@@ -1,4 +1,4 @@\n first\n key = {SECRET}\n-middle\n+centre\n last\n"]
    page, done = export_text(session.path, "html", Redaction())
    assert '<del data-line="3">-middle</del><ins data-line="3">+centre</ins>' in page.decode()
    assert "+++ b/a.txt" not in page.decode()
    assert page.decode().count("What the model read</summary><pre") == 1  # the edit's, which repeats the change
    markdown, _ = export_text(session.path, "md", Redaction())
    assert "\n-middle\n+centre\n last\n" in markdown.decode()
    export_bundle(session.path, tmp_path / "b.tar", Redaction(), {})
    assert not verify(tmp_path / "b.tar").problems
    for whole in (page, markdown, (tmp_path / "b.tar").read_bytes()):
        assert SECRET.encode() not in whole
    assert done.secrets > 0


async def test_diff_bounded_and_optional(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"{number}{'x' * 2_000}\n" for number in range(50)))
    with Session.create_at(tmp_path / "session") as session:
        await edited(tmp_path, session.log(), (tmp_path / "a.txt").read_text(), "short\n")
        results = [read_body(entry) for entry in session.log().entries() if entry.kind == "result"]
    assert "diff" not in results[0]
    diff = str(results[1]["diff"])
    assert MAX_DIFF_CHARS // 2 < len(diff) <= MAX_DIFF_CHARS + 100
    assert "characters in all" in diff.splitlines()[-1]


@pytest.mark.parametrize("kind", ["html", "md"])
def test_logs_without_diffs_use_arguments(kind: str, tmp_path: Path) -> None:
    with Session.create_at(tmp_path / "session") as session:
        log = session.log()
        edit = call("1", "Edit", file_path="a.txt", old_string="middle\n-- old", new_string="centre\n++ new")
        log.append(MessageEntry(StoredMessage.of(Message("assistant", (edit,)), None)))
        log.append(
            Unknown("result", {"result": encode_result_part(ToolResult("1", (Text("ok"),)), None), "seconds": 0.1})
        )
        files = (Touch("/work/a.txt", ABSENT, Snapshot("file", log.blobs.put(b"x").name, 0o644)),)
        log.append(Touched("2", REWIND, True, files))
    page, _ = export_text(session.path, kind, Redaction())  # pyright: ignore[reportArgumentType]
    for line in ("-middle", "--- old", "+centre", "+++ new"):
        assert line in page.decode()
    assert "Files were rewound: " in page.decode()
    assert "a.txt" in page.decode()
