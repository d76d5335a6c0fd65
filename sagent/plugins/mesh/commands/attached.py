"""The REPL on a session that runs on a bus."""

import asyncio
import shlex
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.plugins.mesh.commands.remote_files import bring_files
from sagent.repl.opening import Opened, RemoteSession

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from sagent.cli.interactive import Talk
    from sagent.config import Settings
    from sagent.plugins.mesh.control import Question
    from sagent.plugins.mesh.remote import Mesh
    from sagent.providers.wire.exchange import OnWaiting
    from sagent.repl.opening import Asker, Listener, Opening
    from sagent.tools.ask import Answerer


async def run_attached(url: str, session: str, talk: "Talk | None" = None, *, watch: bool) -> int:
    """Talk to a session until the person leaves, by the screen unless `talk` is given; return the exit code. With
    `watch` they answer no questions. Raises SessionNotFound, UsageError and MeshError."""
    from sagent.plugins.mesh.errors import MeshError
    from sagent.plugins.mesh.records import Records
    from sagent.plugins.mesh.remote import Mesh
    from sagent.repl.front import run_repl

    async with Mesh.connect(url) as mesh:
        record = await Records(mesh.bus).find(session)
        again = f"sagent attach {record.id} --bus {shlex.quote(url)}"
        code = await (talk or run_repl)(load, _opening(mesh, record.id, again, watch=watch))
        if mesh.bus.is_up:  # otherwise do not wait: the outage was reported
            with suppress(MeshError):
                await bring_files(mesh.bus, await Records(mesh.bus).find(record.id), Path.cwd())
        return code


def load() -> "Settings":
    """Load the settings of the person's terminal. Those of the session come from its node."""
    from sagent.cli.settings import load_settings

    settings = load_settings({})
    own = settings.without("mcp", "hooks")
    return replace(own, advisors=(), wish=None, session=None, fork=None, continue_session=False)


def _opening(mesh: "Mesh", session: str, again: str, *, watch: bool) -> "Opening":
    @asynccontextmanager
    async def opening(
        settings: "Settings", listener: "Listener", ask: "Asker", answer: "Answerer", on_waiting: "OnWaiting"
    ) -> "AsyncGenerator[Opened]":
        del settings
        from sagent.plugins.mesh.attached import RemoteAgent, RemotePolicy

        texts = _Texts(ask)
        reply, answering = (None, None) if watch else (texts.reply, answer)
        async with (
            mesh.agent(session, reply, answering) as peer,
            RemoteAgent.followed(mesh.bus, peer, listener) as agent,
        ):
            policy = RemotePolicy(agent)

            def begin(changed: "Callable[[], None]") -> None:
                agent.begin(changed)
                peer.on_waiting = on_waiting
                texts.begun.set()

            elsewhere = RemoteSession(lambda: agent.where, "the bus", begin, again, texts.read, lambda: policy.modes)
            yield Opened(agent, policy, elsewhere=elsewhere)

    return opening


class _Texts:
    """Asks the person about calls, with the files that they would change as they are on the session's machine. Before
    the session's screen has `begun`, a call would be shown with the files and rules of this machine."""

    def __init__(self, ask: "Asker") -> None:
        self.begun = asyncio.Event()
        self._ask = ask
        self._texts: dict[str, str] = {}

    async def reply(self, question: "Question") -> str | None:
        if question.call is None:
            return f"The call is too large to be shown over a bus, so {question.tool} was not allowed."
        self._texts.update(question.texts)
        await self.begun.wait()
        said = await self._ask(question.call, question.ask)
        return said if said is None or isinstance(said, str) else "A call cannot be changed from here."

    def read(self, path: str) -> str | None:
        return self._texts.get(path)
