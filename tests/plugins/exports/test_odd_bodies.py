"""Bodies that no sagent of this version writes, in entries whose ids are right: commands tell of them."""

import hashlib
import json
import re
import shutil
from pathlib import Path

import pytest

from sagent.cli.main import run

RECORDED = Path(__file__).parents[2] / "session/recorded_2"
COMMANDS = (
    ["verify"], ["trace"], ["advice"], ["sessions", "show"],
    ["export", "--format", "html", "--out", "out"], ["export", "--format", "jsonl", "--out", "out"],
)  # fmt: skip


def deep(levels: int) -> bytes:
    return b'{"parameters":{"a":' + b"[" * levels + b"]" * levels + b"}}"


BODIES = {
    "bottomless": ("spent", deep(200_000)),
    "deep": ("request", deep(900)),
    "no JSON": ("message", b'{"role":}'),
    "no UTF-8": ("advice", b'{"advisor":"\xff"}'),
    "not a number": ("message", b'{"parts":[{"arguments":NaN,"type":"tool_call"}],"role":"assistant"}'),
    "a long number": ("request", b'{"size":%b}' % (b"9" * 5000)),
    "half a surrogate pair": ("spent", rb'{"agent":"root","model":"\ud800","provider":"\uD800"}'),
    "more USD than a sum holds": ("spent", b'{"agent":"root","usd":"1e999999999"}'),
    "USD that are no number": ("spent", b'{"agent":"root","usd":"NaN"}'),
}


def replaced(session: Path, kind: str, body: bytes) -> None:
    """Put a body into the first entry of a kind, and follow up all ids."""
    lines, parent = [], b""
    pattern = re.compile(rb'\{"id":"(.{64})","at":"(.{27})","body":(.*),"kind":"([a-z]+)","parent":"(.*)"\}\n')
    for line in session.joinpath("root.jsonl").read_bytes().splitlines(keepends=True):
        found = pattern.fullmatch(line)
        assert found
        _, at, said, of, before = found.groups()
        if of == kind.encode() and body:
            said, body = body, b""
        if of == b"forked":
            break  # which names two others
        rest = b'"at":"%b","body":%b,"kind":"%b","parent":"%b"}' % (at, said, of, parent if before else b"")
        parent = hashlib.sha256(b"{" + rest).hexdigest().encode()
        lines.append(b'{"id":"%b",%b\n' % (parent, rest))
    session.joinpath("root.jsonl").write_bytes(b"".join(lines))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("what", BODIES)
def test_unusable_body_reported(
    what: str, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    check_told(what, command, tmp_path, monkeypatch, capfd)


def check_told(
    what: str, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Check that a command tells of a body in a recorded session that nothing can be made of."""
    session = Path(shutil.copytree(RECORDED, tmp_path / "session"))
    replaced(session, *BODIES[what])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SAGENT_STATE_DIR", str(tmp_path / "state"))
    verb = 2 if command[0] == "sessions" else 1
    code = run([*command[:verb], str(session), *command[verb:]])
    told = capfd.readouterr()
    assert code in (0, 1)
    assert code == 0 or told.err or told.out
    told.out.encode()


def test_overflowing_price_unknown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    session = Path(shutil.copytree(RECORDED, tmp_path / "session"))
    replaced(session, *BODIES["more USD than a sum holds"])
    assert run(["export", str(session), "--format", "jsonl", "--out", "-"]) == 0
    first = next(line for line in map(json.loads, capfd.readouterr().out.splitlines()) if line["kind"] == "spent")
    assert first["body"]["usd"] == "1e999999999"  # what was written stays
