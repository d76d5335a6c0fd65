"""Logs of every version of the format, written here byte by byte: they open, go on, verify and are exported.

A new version gets a writer of its own here; those of the earlier ones stay as they are.
"""

import hashlib
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from sagent.codec import VERSION
from sagent.lib.json import JsonObject
from sagent.messages import Image, Text, ToolCall
from sagent.model import ToolSpec
from sagent.session.contents import NoticeEntry, PromptEntry
from sagent.session.folds import contents, history, on_their_way, origin, spend, title, unread
from sagent.session.log import read_log
from sagent.session.retention import glance
from sagent.session.store import Session
from sagent.session.summary import summarize
from sagent.session.view import branch
from tests.intact import faults


def write_version_1(session: Path, version: int = 1) -> Path:
    """A session as version 1 has it, by nothing but the standard library."""
    (session / "blobs").mkdir(parents=True)
    (session / "root").mkdir()
    (session / "lock").write_text("{}\n")
    picture = b"\x89PNG of old"
    blob = hashlib.sha256(picture).hexdigest()
    (session / "blobs" / blob).write_bytes(picture)

    def write(name: str, *bodies: tuple[str, object]) -> list[str]:
        lines, ids, parent = [], [], ""
        for second, (kind, body) in enumerate(bodies):
            at = f"2026-11-21T03:15:{second:02}.000001Z"
            members = {"at": at, "body": body, "kind": kind, "parent": ids[0] if kind == "forked" else parent}
            text = json.dumps(members, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
            parent = hashlib.sha256(text.encode()).hexdigest()
            lines.append(f'{{"id":"{parent}",{text[1:]}\n'.encode())
            ids.append(parent)
        (session / name).write_bytes(b"".join(lines))
        return ids

    def opened(agent: str) -> tuple[str, object]:
        environment = {"sagent": "0.1.0", "python": "3.11.0", "platform": "linux"}
        told = {"version": version, "session": session.name, "agent": agent, "cwd": "/work", "environment": environment}
        return "opened", told

    words = [
        {"type": "text", "text": 'Käse\u2028 "fixen"\n'},
        {"type": "image", "media_type": "image/png", "blob": blob},
    ]
    call = {"type": "tool_call", "id": "c1", "name": "Read", "arguments": '{"file_path":"a.py","n":1.0}'}
    thought = {"type": "thinking", "text": "hm", "private": {"family": "anthropic", "data": '{"signature":"s"}'}}
    result = {"type": "tool_result", "call_id": "c1", "content": [{"type": "text", "text": "x = 1"}], "is_error": True}
    tool = {"name": "Read", "description": "reads", "parameters": {"properties": {}, "type": "object"}}
    if version > 1:
        result["denied"] = False
        tool = {"name": "Read", "description": "reads", "schema": '{"type":"object","properties":{}}'}
    bill = {
        "agent": "root", "role": "executor", "provider": "anthropic", "model": "m", "usd": "0.0125", "tier": "",
        "estimated": False, "usage": {"input": 10, "cache_write_1h": 5, "output": 3, "fees": {"web_search": 1}},
    }  # fmt: skip
    child = write("root/review.jsonl", opened("root/review"), ("message", {"role": "user", "parts": words[:1]}))
    write(
        "root.jsonl",
        opened("root"),
        ("prompt", {"system": "You are sagent.", "tools": [tool]}),
        ("message", {"role": "user", "parts": words}),
        ("request", {"sha256": "0" * 64, "size": 9, "model": "anthropic/m", "parameters": {"max_tokens": 9}}),
        ("message", {"role": "assistant", "parts": [thought, call], "model": "anthropic/m", "stop": "tool_use"}),
        ("result", {"result": result, "seconds": 0.5}),
        ("message", {"role": "user", "parts": [result]}),
        ("spent", bill),
        ("spawned", {"agent": "root/review", "entry": child[0]}),
        ("returned", {"agent": "root/review", "entry": child[1]}),
        ("received", {"message": {"role": "user", "parts": words[:1], "sender": "root/a"}, "moment": "next",
                      "answer": True}),
        ("sent", {"to": "root", "message": {"role": "user", "parts": words[:1]}, "due": "2027-01-01T00:00:00+00:00"}),
        ("a_kind_nobody_knows", {"n": [1, 2.5, None, True]}),
        ("label", {"text": "an old one"}),
    )  # fmt: skip
    return session


def write_version_2(session: Path) -> Path:
    """The same as version 2 has it: a result that failed says whether it was denied, and schemas are text."""
    return write_version_1(session, 2)


WRITERS: dict[int, Callable[[Path], Path]] = {1: write_version_1, 2: write_version_2}


def test_every_version_has_its_writer():
    assert sorted(WRITERS) == list(range(1, VERSION + 1))


@pytest.fixture(params=sorted(WRITERS))
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return WRITERS[request.param](tmp_path / "20261121-031500-abcdef")


def test_written_version_verifies(session: Path):
    assert faults(session) == []


def test_written_version_reads_the_same(session: Path):
    with Session.open(session) as opened:
        log = opened.log()
        entries = list(log.entries())
        first, reply, answer = history(entries, log.blobs.get)
        assert first.parts == (Text('Käse\u2028 "fixen"\n'), Image("image/png", b"\x89PNG of old"))
        assert isinstance(reply.parts[1], ToolCall)
        assert dict(reply.parts[1].arguments) == {"file_path": "a.py", "n": 1.0}
        assert reply.parts[0].private is not None  # pyright: ignore[reportAttributeAccessIssue]
        assert (answer.results[0].text, answer.results[0].is_error) == ("x = 1", True)
        assert [each.message.sender for each in unread(entries, log.blobs.get)] == ["root/a"]
        assert [each.due_at.year for each in on_their_way(entries, log.blobs.get)] == [2027]
        spent = spend(entries)
        assert (spent.cost().total, spent.whole.usage.cache_write_1h, dict(spent.whole.usage.fees)) == (
            Decimal("0.0125"),
            5,
            {"web_search": 1},
        )
        (prompt,) = contents(entries, PromptEntry)
        assert prompt.tools[0].load() == ToolSpec("Read", "reads", JsonObject({"type": "object", "properties": {}}))
        assert prompt.tools[0].ordered == (origin(entries).version > 1)
        assert title(entries) == "an old one"
    assert (summarize(session).cwd, glance(session).title) == ("/work", "an old one")


def test_written_version_continues(session: Path):
    with Session.open(session) as opened:
        before = list(opened.log().entries())
        opened.log().append(NoticeEntry("on"))
        opened.log().fork(before[2].id)
    assert len(branch(read_log(session / "root.jsonl"))) == 4
    assert faults(session) == []
