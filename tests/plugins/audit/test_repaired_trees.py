"""A tree of agents whose logs were repaired."""

from pathlib import Path

from sagent.peer import SpawnRequest
from sagent.plugins.audit.repair import repair
from sagent.plugins.audit.verify import verify
from tests.agent.cast import Cast
from tests.agent.test_recall import at_work, killed
from tests.messages import in_turn


async def test_child_back_after_repair(tmp_path: Path) -> None:
    async with at_work(tmp_path / "s", Cast(root__a=in_turn("one"))) as agent:
        child = await agent.spawn(SpawnRequest("first words", name="a", persistent=True))
        await child.wait()
        copy = killed(tmp_path / "s")
    file = copy / "root" / "a.jsonl"
    first, *rest = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([bytes(len(first)) + b"\n", *rest]))
    assert {done.file.name for done in repair(copy)} == {"a.jsonl", "root.jsonl"}
    async with at_work(copy, Cast(root__a=in_turn("again"))) as agent:
        child = agent.tree.get("root/a")
        assert child is not None
        assert "first words" in " ".join(message.content for message in child.state.context.history)
        assert agent.ledger.cost().unpriced == ("lost/in a damaged log",)
        assert "" not in agent.ledger.totals().by_agent
    assert verify(copy).problems == ()
