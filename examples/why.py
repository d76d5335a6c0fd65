"""A session that wastes money, and where its money went: a file is read again and again, and one reading is long.

python examples/why.py
"""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from sagent.agent import Agent, Resources
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.providers import provider_named
from sagent.session.store import Session
from sagent.testing.script import Call, Turn
from sagent.testing.server import FakeProviderServer
from sagent.tool import Workspace
from sagent.tools import Read


def read(file: str) -> Turn:
    """A turn that reads a file."""
    return Turn(text="I look once more.", calls=(Call("Read", {"file_path": file}),))


SCRIPT = (read("app.py"), read("data.py"), read("app.py"), read("none.py"), read("app.py"), Turn(text="It adds now."))


async def work(home: Path) -> Path:
    """Let a scripted provider on this machine waste money at list prices; return the session."""
    (home / "app.py").write_text("def add(one, two):\n    return one - two\n" * 60)
    (home / "data.py").write_text("".join(f"value_{number} = {number}\n" for number in range(1_500)))
    async with FakeProviderServer(SCRIPT) as server:
        provider = provider_named("anthropic", key="none-is-needed", base_url=server.url)
        with Session.create(home / "state", home) as session:
            session.begin(home)
            resources = Resources(log=session.log(), ledger=Ledger(None, PriceBook()), workspace=Workspace(home))
            model = provider.model("claude-sonnet-4-6")
            async with Agent(model, system="Be brief.", tools=(Read(),), resources=resources) as agent:
                await agent.run("Mend add in app.py.")
        await provider.aclose()
    return session.path


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        session = asyncio.run(work(Path(place)))
        subprocess.run([sys.executable, "-m", "sagent", "why", str(session)], check=True)
