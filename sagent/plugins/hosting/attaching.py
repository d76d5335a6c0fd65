"""The REPL on a session that runs in another process."""

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias

from sagent.repl.opening import Opened, RemoteSession

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from contextlib import AbstractAsyncContextManager

    from sagent.config import Settings
    from sagent.plugins.hosting.followed import FollowedAgent
    from sagent.plugins.hosting.questions import Answer, Question, Reply
    from sagent.providers.wire.exchange import OnWaiting
    from sagent.repl.opening import Asker, Listener, Opening
    from sagent.tools.ask import Answerer

Following: TypeAlias = "Callable[[Listener, Reply | None, Answer | None], AbstractAsyncContextManager[FollowedAgent]]"
"""Follows a session for a listener, and has questions answered by the other two."""


def opening_of(follow: Following, home: str, again: str, *, watch: bool) -> "Opening":
    """Return a function that opens a followed session in the REPL. `home` is where it rests, `again` the command to
    return to it; with `watch` its questions are not put."""

    @asynccontextmanager
    async def opening(
        settings: "Settings", listener: "Listener", ask: "Asker", answer: "Answerer", on_waiting: "OnWaiting"
    ) -> "AsyncGenerator[Opened]":
        del settings
        from sagent.plugins.hosting.followed import FollowedPolicy

        texts = _Texts(ask)
        reply, answering = (None, None) if watch else (texts.reply, answer)
        async with follow(listener, reply, answering) as agent:
            policy = FollowedPolicy(agent)

            def begin(changed: "Callable[[], None]") -> None:
                agent.begin(changed)
                agent.peer.on_waiting = on_waiting
                texts.begun.set()

            elsewhere = RemoteSession(lambda: agent.where, home, begin, again, texts.read, lambda: policy.modes)
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
