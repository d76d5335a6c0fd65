"""A session goes on though the node at work is killed, stopped or drained."""

import asyncio
import json
import signal
from pathlib import Path

from sagent.testing.server import Call, Turn
from tests.mesh.places import by_results, place


async def test_a_prompt_is_answered_by_a_node(tmp_path: Path) -> None:
    async with place(tmp_path, by_results([Turn("Hello from afar.")])) as here:
        await here.node("n1")
        code, out, err = await here.ask("--json", "hello")
        assert code == 0, err + out
        assert json.loads(out)["result"] == "Hello from afar."
        code, out, err = await here.ask("hello")
        assert (code, out) == (0, "Hello from afar.\n")


async def test_the_node_at_work_is_killed_and_the_answer_arrives(tmp_path: Path) -> None:
    turns = [
        Turn("One.", calls=(Call("Write", {"file_path": "a.txt", "content": "one\n"}),)),
        Turn("Two.", calls=(Call("Bash", {"command": f"echo run >>{tmp_path}/runs; sleep 5"}),)),
        Turn("Done."),
    ]
    async with place(tmp_path, by_results(turns)) as here:
        repository = tmp_path / "repository"
        repository.mkdir()
        for command in ("git init -q", "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first"):
            process = await asyncio.create_subprocess_shell(command, cwd=repository)
            assert await process.wait() == 0
        nodes = [await here.node("n1")]
        asking = asyncio.create_task(here.ask("--json", "work", cwd=repository))
        while not (tmp_path / "runs").exists():
            await asyncio.sleep(0.05)
        nodes.append(await here.node("n2"))
        nodes[0].kill(signal.SIGKILL)
        code, out, err = await asking
        result = json.loads(out)
        assert (code, result["result"]) == (0, "Done."), err
        assert (tmp_path / "runs").read_text() == "run\n"  # and not again
        assert "outcome is unknown" in here.server.requests[-1].body.decode()
        reference = f"refs/sagent/{result['session_id']}:a.txt"
        shown = await asyncio.create_subprocess_exec(
            "git", "show", reference, cwd=repository, stdout=asyncio.subprocess.PIPE
        )
        assert (await shown.communicate())[0] == b"one\n"
