"""Damaged, cut, huge and foreign-encoded transcripts: a whole session of what can be read, and a list of the rest."""

import json
import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_taken_over import messages, took, whole
from told_transcripts import IDS, PIXEL, TELL, claude_lines, codex_lines, write

from sagent.errors import UsageError
from sagent.plugins.audit.verify import verify
from sagent.plugins.transfer import lines
from sagent.plugins.transfer.steps import Program
from sagent.providers.handover import Handover, Rules
from tests.cli.program import Shell
from tests.depth import deep

WRONG: Sequence[object] = (
    *(None, True, 0, -1, 1e308, 10**30, "", "\ud800x", "\x00", "x" * 2000, [], {}, [[]], [{}], {"a": {"b": [1]}}),
    *("../../etc/passwd", [None], [1, "a", {}], "\x1b[2J"),
)


def wronged(value: object, luck: random.Random) -> object:
    """Return JSON with some values of another type, some left out and some twice."""
    if luck.random() < 0.03:
        return luck.choice(WRONG)
    if isinstance(value, dict):
        members = json.loads(json.dumps(value)).items()
        return {name: wronged(member, luck) for name, member in members if luck.random() > 0.01}
    if isinstance(value, list):
        items = [wronged(item, luck) for item in json.loads(json.dumps(value))]
        return items + items[:1] if luck.random() < 0.03 else items
    return value


def damage(file: Path, kind: str, luck: random.Random) -> None:
    """Damage a transcript."""
    data = bytearray(file.read_bytes())
    if file.suffix == ".db" and kind != "bytes":
        with closing(sqlite3.connect(file)) as database, database:
            for table in ("message", "part"):
                for row, text in database.execute(f"select rowid, data from {table}").fetchall():
                    new = json.dumps(wronged(json.loads(text), luck))
                    database.execute(f"update {table} set data = ? where rowid = ?", (new, row))
        return
    match kind:
        case "types":
            rows = [json.dumps(wronged(json.loads(line), luck)) for line in data.decode().splitlines()]
            file.write_text("".join(f"{row}\n" for row in rows))
        case "bytes":
            for _ in range(luck.randint(1, 20)):
                data[luck.randrange(len(data))] = luck.randrange(256)
            file.write_bytes(data)
        case "cut":
            file.write_bytes(data[: luck.randrange(len(data))])
        case _:
            rows = bytes(data).splitlines(keepends=True)
            luck.shuffle(rows)
            file.write_bytes(b"".join(row for row in rows if luck.random() > 0.1) * 2)


@pytest.mark.parametrize("program", TELL)
@settings(max_examples=deep(20, 300), deadline=None)
@given(kind=st.sampled_from(["types", "bytes", "cut", "disorder"]), seed=st.integers(0, 2**32))
def test_any_damage_leaves_a_whole_session_or_one_sentence(program: Program, kind: str, seed: int) -> None:
    with TemporaryDirectory() as place:
        home = Path(place)
        file = TELL[program](home)
        damage(file, kind, random.Random(seed))
        try:
            taken = took(home, program, IDS[program] if program == "opencode" else str(file))
        except UsageError:
            assert list((home / "state").rglob("root.jsonl")) == []
            return
        assert verify(taken.session).problems == ()
        handover = Handover(Rules("none"))
        for message in messages(taken.session):
            handover.feed(message)
        handover.open()


class TestNamed:
    def claude(self, home: Path, rows: list[object], data: bytes = b"") -> Path:
        file = write(home / f".claude/projects/-there/{IDS['claude']}.jsonl", rows)
        file.write_bytes(file.read_bytes() + data)
        return file

    def test_cut_last_line(self, tmp_path: Path) -> None:
        self.claude(tmp_path, [*claude_lines()], b'{"type":"assistant","uu')
        taken = took(tmp_path, "claude")
        assert taken.left_out["a last line that is cut"] == 1
        assert messages(taken.session)[-2].content == "All done."

    def test_damaged_line_in_the_middle_keeps_both_sides(self, tmp_path: Path) -> None:
        rows = claude_lines()
        file = self.claude(tmp_path, [])
        text = [json.dumps(row) for row in rows]
        text[5] = text[5][:40]
        file.write_text("\n".join(text))
        taken = took(tmp_path, "claude")
        assert taken.left_out["a damaged line"] == 1
        texts = [one.content for one in whole(taken.session)]
        assert "please look" in texts
        assert "All done." in texts

    def test_bytes_that_are_not_utf8(self, tmp_path: Path) -> None:
        rows = json.dumps({**claude_lines()[0], "message": {"role": "user", "content": "ß look"}}, ensure_ascii=False)
        self.claude(tmp_path, [], rows.encode("latin-1") + b"\n")
        taken = took(tmp_path, "claude")
        assert [one.content for one in messages(taken.session)] == ["\ufffd look"]
        assert sum(taken.left_out.values()) == 1

    def test_utf16(self, tmp_path: Path) -> None:
        file = self.claude(tmp_path, [*claude_lines()])
        file.write_bytes(file.read_text().encode("utf-16"))
        assert "All done." in [one.content for one in messages(took(tmp_path, "claude").session)]

    def test_huge_line(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(lines, "MAX_LINE_CHARS", 5_000)
        first, *rest = claude_lines()
        huge = {**first, "uuid": "h", "message": {"role": "user", "content": "x" * 20_000}}
        self.claude(tmp_path, [first, huge, *rest])
        taken = took(tmp_path, "claude")
        assert taken.left_out["a line of more than 64 MiB"] == 1
        assert "All done." in [one.content for one in messages(taken.session)]

    def test_circle_of_parents(self, tmp_path: Path) -> None:
        first, second, *_ = claude_lines()
        self.claude(tmp_path, [{**first, "parentUuid": "u1"}, second])
        assert len(whole(took(tmp_path, "claude").session)) == 2

    def test_damaged_and_foreign_media(self, tmp_path: Path) -> None:
        def image(**source: object) -> object:
            return {"type": "image", "source": {"type": "base64", "media_type": "image/png", **source}}

        cut = PIXEL[: len(PIXEL) // 8 * 4]
        blocks = [image(data="%%%"), image(data="AAAA", media_type="image/svg+xml"), image(type="url", url="http://x/")]
        blocks += [image(data=cut), image(data="AAAA"), image(data="AAAA", media_type="application/pdf")]
        first = {
            **claude_lines()[0],
            "message": {"role": "user", "content": [{"type": "text", "text": "look"}, *blocks]},
        }
        self.claude(tmp_path, [first])
        taken = took(tmp_path, "claude")
        assert messages(taken.session)[0].parts[1:] == ()
        assert sum(taken.left_out.values()) == 6

    @pytest.mark.parametrize(("turns", "left"), [(1, "please look"), (2, ""), (9, "")])
    def test_turns_taken_back_in_codex(self, tmp_path: Path, turns: int, left: str) -> None:
        rows = [row for row in codex_lines(IDS["codex"]) if row["type"] != "compacted"]
        back = {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": turns}}
        again = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "again"}]}
        file = f"rollout-2026-12-01T15-25-34-{IDS['codex']}.jsonl"
        rows += [back, {"type": "response_item", "payload": again}]
        write(tmp_path / ".codex/sessions/2026/12/01" / file, rows)
        taken = took(tmp_path, "codex")
        prompts = [one.content for one in whole(taken.session) if one.role == "user" and not one.sender]
        assert [prompt for prompt in prompts if prompt] == [*filter(None, (left,)), "again"]
        assert taken.left_out["a message of a turn that was taken back"] > 0

    def test_messages_taken_back_in_opencode(self, tmp_path: Path) -> None:
        with closing(sqlite3.connect(TELL["opencode"](tmp_path))) as database, database:
            (*_, last) = database.execute("select id from message where session_id like 'ses_d%' order by id")
            database.execute("alter table session add column revert text")
            database.execute("update session set revert = ?", (json.dumps({"messageID": last[0]}),))
        taken = took(tmp_path, "opencode")
        assert taken.left_out["a message that was taken back"] == 1
        texts = [one.content for one in whole(taken.session)]
        assert "and now?" in texts
        assert "All done." not in texts

    def test_reasons_never_quote_the_transcript(self, tmp_path: Path) -> None:
        evil = "\x1b[31mrm -rf\x07"
        rows: list[object] = [*claude_lines(), {"type": evil}, {"uuid": "z", "parentUuid": "u14", "type": evil}]
        rows.append({"uuid": "y", "parentUuid": "z", "type": "attachment", "attachment": {"type": evil}})
        self.claude(tmp_path, rows)
        taken = took(tmp_path, "claude")
        assert "\x1b" not in "".join(taken.left_out) + taken.summary
        assert any("another kind" in reason for reason in taken.left_out)


class TestRefused:
    @pytest.mark.parametrize(
        ("name", "data", "words"),
        [
            ("a.jsonl", b"", "no transcript"),
            ("a.jsonl", b"hello\nworld\n", "no transcript"),
            ("a.jsonl", b"\x28\xb5\x2f\xfd\x00", "no transcript"),
            ("a.jsonl", b'{"type":"session_meta","payload":{"id":"x"}}\n', "no message"),
            ("a.json", b'{"sessionId": "x", "messages": [', "cut or damaged"),
            ("a.db", b"SQLite format 3\x00rest", "cannot be read as opencode's database"),
        ],
    )
    def test_file_without_a_conversation(self, shell: Shell, name: str, data: bytes, words: str) -> None:
        (shell.cwd / name).write_bytes(data)
        done = shell.run("resume", name, "--save-only", model="")
        assert done.code == 2
        assert words in done.err
        assert done.err.count("\n") == 1, "one sentence"
        assert shell.run("sessions", "list", "--ids", model="").out == ""

    def test_compressed_file_says_what_to_do(self, shell: Shell) -> None:
        (shell.cwd / "a.jsonl").write_bytes(b"\x28\xb5\x2f\xfd\x00")
        done = shell.run("resume", "a.jsonl", "--from", "codex", "--save-only", model="")
        assert (done.code, "zstd -d" in done.err) == (2, True)

    def test_pipe_and_directory_are_no_transcripts(self, shell: Shell) -> None:
        import os

        os.mkfifo(shell.cwd / "pipe.jsonl")
        (shell.cwd / "folder.jsonl").mkdir()
        for name in ("pipe.jsonl", "folder.jsonl"):
            assert shell.run("resume", name, "--save-only", model="").code == 2
