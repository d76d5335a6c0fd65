"""A session that was copied or moved: what its conversation names is found where it lies now."""

import re
from pathlib import Path

import pytest

from sagent.app import open_agent
from sagent.codec import VERSION
from sagent.config import load
from sagent.context.compaction import HEADINGS
from sagent.errors import SagentError
from sagent.session.contents import NoticeEntry, Opened
from sagent.session.entries import parse_line, read_body, seal_again
from sagent.session.store import Session, delete, sessions
from sagent.testing.server import Call, FakeProviderServer, Received, Step, Turn

SUMMARY = "\n".join(f"## {heading}\nsomething that matters here" for heading in HEADINGS)


class Model:
    """Says where the port is, sums up, and is then told to read what was cut."""

    def answer(self, request: Received) -> Step:
        body = request.body.decode()
        if "(This is from sagent" in body:
            return Turn(text=SUMMARY)
        if "read it" not in body or '"tool_result"' in body:
            return Turn(text="the port is 4711, as said")
        found = re.search(r"All of it is in (\S+?):", body)
        assert found is not None
        return Turn(calls=(Call("Read", {"file_path": found[1]}), Call("Grep", {"path": found[1], "pattern": "port"})))


@pytest.mark.costly
@pytest.mark.parametrize("how", ["fork", "fork, and the first one deleted", "moved"])
async def test_cut_file_is_readable_in_copy(tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    async with FakeProviderServer(Model().answer) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        environment = {"HOME": str(tmp_path), "SAGENT_STATE_DIR": str(tmp_path / "state")}
        flags = {"model": "anthropic/claude-sonnet-4-6", "permission_mode": "ask"}
        async with open_agent(load(flags, environment, tmp_path / "work"), lambda _: None) as agent:
            path = Path(agent.log.path)
            for number in range(4):
                await agent.run(f"question {number}")
            await agent.compact()
        if how == "moved":
            path = path.rename(tmp_path / "elsewhere")
            flags["session"] = str(path)
        else:
            flags["fork"] = str(path)
        async with open_agent(load(flags, environment, tmp_path / "work"), lambda _: None) as agent:
            if "deleted" in how:
                delete(path)
            await agent.run("read it")
            results = agent.messages[-2].results
    assert [result.is_error for result in results] == [False, False]
    assert all("the port is 4711" in result.text for result in results)


@pytest.mark.parametrize("wrong", ["provider", "damaged", "newer"])
async def test_unusable_fork_leaves_no_copy(tmp_path: Path, wrong: str) -> None:
    state = tmp_path / "state"
    with Session.create(state, tmp_path) as session:
        session.log().append(Opened(session.id, "root", str(tmp_path), {}))
        session.log().append(NoticeEntry("said"))
    log = session.path / "root.jsonl"
    if wrong == "damaged":
        log.write_bytes(log.read_bytes().replace(b"said", b"sad!"))
    elif wrong == "newer":
        opened, _ = log.read_bytes().splitlines(keepends=True)
        entry = parse_line(opened)
        log.write_bytes(seal_again("", entry, {**read_body(entry), "version": VERSION + 1}).line)
    model = f"{'nobody' if wrong == 'provider' else 'anthropic'}/model"
    flags = {"model": model, "fork": str(session.path)}
    settings = load(flags, {"HOME": str(tmp_path), "SAGENT_STATE_DIR": str(state)}, tmp_path)
    with pytest.raises(SagentError) as caught:
        async with open_agent(settings, lambda _: None):
            pass
    assert (session.id in str(caught.value)) is (wrong != "provider")
    assert list(sessions(state)) == [session.path]
