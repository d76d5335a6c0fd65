"""A repository's files on the bus, and what of it its owner sees."""

import asyncio
import subprocess
from pathlib import Path

from sagent.plugins.mesh import names
from sagent.plugins.mesh.jetstream import connected
from sagent.plugins.mesh.server import ServerOptions, serving
from sagent.plugins.mesh.workspace import Files, fetch_changes, offer
from sagent.testing.server import Call, Turn
from tests.depth import later
from tests.plugins.mesh.places import by_results, place


def git(directory: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    return subprocess.run(["git", *who, *arguments], cwd=directory, check=True, capture_output=True, text=True).stdout


def repository(directory: Path, text: str = "one\n") -> Path:
    directory.mkdir()
    git(directory, "init", "-q", "-b", "trunk")
    (directory / "a.txt").write_text(text)
    git(directory, "add", "-A")
    git(directory, "commit", "-qm", "first")
    return directory


@later
async def test_offering_leaves_other_refs_alone(tmp_path: Path) -> None:
    mine = repository(tmp_path / "mine")
    (mine / "späß.txt").write_text("no commit has it")
    before = git(mine, "for-each-ref"), git(mine, "status", "--porcelain")
    async with serving(ServerOptions(tmp_path / "bus", port=0)) as server, connected(server.url) as bus:
        await bus.ensure()
        store = bus.store(names.BLOBS)
        names_of = await asyncio.gather(offer(store, mine), offer(store, mine))
        assert names_of[0] == names_of[1]
        assert (git(mine, "for-each-ref"), git(mine, "status", "--porcelain")) == before
        there = Files(store, "git", tmp_path / "there")
        await there.restore(names_of[0])
        (tmp_path / "there" / "b.txt").write_text("new")
        reference = await fetch_changes(store, await there.keep(), mine, "s1")
        assert git(mine, "for-each-ref", "--format=%(refname)").split() == ["refs/heads/trunk", reference]
        assert git(mine, "show", f"{reference}:b.txt") == "new"
        assert git(mine, "status", "--porcelain") == before[1]


@later
async def test_follower_gets_session_files(tmp_path: Path) -> None:
    mine, other = repository(tmp_path / "mine"), repository(tmp_path / "other", "another\n")
    turns = [Turn("One.", calls=(Call("Bash", {"command": "echo new >b.txt"}),)), Turn("Done.")]
    turns += [Turn("Two.", calls=(Call("Bash", {"command": "echo newer >b.txt"}),)), Turn("Again.")]
    async with place(tmp_path, by_results(turns)) as here:
        code, session, err = await here.ask("--detach", "work", cwd=mine)
        assert (code, err) == (0, "")
        code, _, err = await here.ask_plain("verify", session.strip(), "--bus", here.url)
        assert (code, "no node has started it" in err, "/tmp" in err) == (2, True, False), err
        attach = ("attach", session := session.strip(), "--bus", here.url)
        await here.node("n1")
        code, _, err = await here.ask_plain(*attach, cwd=mine)
        assert (code, f"git diff refs/sagent/{session}" in err) == (0, True), err
        code, out, err = await here.ask_plain("verify", session, "--bus", here.url)
        assert (code, f"session {session}  on the bus" in out, err) == (0, True, "")
        code, _, err = await here.ask_plain("verify", session, "--bus", here.url, "--sign", "key")
        assert (code, "--sign saves the signature" in err) == (2, True), err
        assert git(mine, "show", f"refs/sagent/{session}:b.txt") == "new\n"
        code, out, err = await here.ask("--resume", session, "more", cwd=other)
        assert (code, out, "belong to another repository" in err) == (0, "Again.\n", True), err
        assert not git(other, "for-each-ref", "refs/sagent")
        code, _, err = await here.ask_plain(*attach, cwd=mine)
        assert git(mine, "show", f"refs/sagent/{session}:b.txt") == "newer\n"
        assert (await here.ask_plain(*attach, cwd=tmp_path))[0] == 0  # where no repository is
