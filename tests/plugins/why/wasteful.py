"""A session that wastes money, held by a real agent over HTTP: a file read again and again, a long output, a changed
prompt."""

from collections.abc import Sequence
from pathlib import Path

from sagent.agent import Agent, Resources
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.providers import provider_named
from sagent.session.store import Session
from sagent.testing.script import Call, Step, Turn
from sagent.testing.server import FakeProviderServer
from sagent.tool import Workspace
from sagent.tools import Read

MODEL = "claude-sonnet-4-6"


def turn(file: str) -> Turn:
    """A turn that reads a file."""
    return Turn(text="I look.", calls=(Call("Read", {"file_path": file}),))


STEPS: Sequence[Step] = (
    turn("app.py"), turn("long.py"), turn("app.py"), turn("none.py"), turn("app.py"), Turn(text="Done."),
    Turn(text="Done again."),
)  # fmt: skip


async def tell(home: Path, steps: Sequence[Step] = STEPS, *, provider: str = "anthropic", model: str = MODEL) -> Path:
    """Have it happen; return where the session is."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "app.py").write_text("def add(one, two):\n    return one - two\n" * 60)
    (home / "long.py").write_text("".join(f"value_{number} = {number}\n" for number in range(1_500)))
    async with FakeProviderServer(steps) as server:
        url = server.url if provider == "anthropic" else f"{server.url}/v1"
        named = provider_named(provider, key="key-for-tests", base_url=url)
        with Session.create(home / "state", home) as session:
            session.begin(home)
            agent = Agent(
                named.model(model),
                system="Be brief.",
                tools=(Read(),),
                resources=Resources(log=session.log(), ledger=Ledger(None, PriceBook()), workspace=Workspace(home)),
            )
            await agent.run("Mend add in app.py.")
            await agent.run("And now?")
            await agent.aclose()
        await named.aclose()
    return session.path
