"""Work that must not delay the first request: the state of git, trying the sandbox, a model's listing."""

import asyncio
import subprocess
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sagent import tools
from sagent.agent import Agent
from sagent.app.builder import AgentBuilder
from sagent.context.instructions import repository_root
from sagent.events import Event, Finished, Received, Switched
from sagent.lib.git import git_call
from sagent.session.contents import Environment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def add(builder: AgentBuilder) -> None:
    """Start it. Facts that are known when a run ends are logged then."""
    work = BackgroundWork(builder)
    builder.stack.push_async_callback(work.aclose)
    builder.resources = replace(builder.resources, finish=work.finish)
    builder.started.append(work.follow)


class BackgroundWork:
    """Facts found in the background: the state of the git repository, the means of the sandbox and its first box, and a
    model's listing.

    git starts at once in its own process. The sandbox, the box and the listing wait until the agent has been quiet for
    a moment, as it is while a model thinks.
    """

    QUIET = 0.1  # seconds

    def __init__(self, builder: AgentBuilder) -> None:
        self._log, self._sandbox, self._choice = builder.log, builder.sandbox, builder.choice
        self._git = None if builder.past.messages else start_git_status(builder.settings.cwd)
        self._logged, self._known = builder.past.sandbox, builder.past.address
        self._held = ""
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._studying: asyncio.Task[None] | None = None
        self._agent: Agent | None = None
        bash = next((tool for tool in builder.tools if tool.name == "Bash"), None)
        self._warn: Callable[[str], None] = builder.warn if bash else lambda _: None  # if a sandbox is lacking
        self._prepare: Callable[[], Awaitable[None]] | None = None
        if bash is not None and isinstance(bash, tools.Bash):
            self._prepare = partial(bash.prepare, builder.workspace, builder.log.blobs)

    def follow(self, agent: Agent) -> None:
        """Start following the agent's events."""
        self._agent = agent
        agent.listen(self.on_event)

    def on_event(self, event: Event) -> None:
        if isinstance(event, Received | Switched):  # before the request, because a run may be killed
            self._log_new(self._new_address())
        loop = asyncio.get_running_loop()
        self._last = loop.time()
        if self._timer is None and not isinstance(event, Finished):
            self._timer = loop.call_later(self.QUIET, self._check)

    def _check(self) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() - self._last < self.QUIET:
            self._timer = loop.call_later(self.QUIET, self._check)
            return
        self._studying = loop.create_task(self._look())

    async def _look(self) -> None:
        await self._find_sandbox()
        if self._prepare is not None:
            await self._prepare()
        if self._agent is not None and self._choice.wants_listing(model := self._agent.model):
            await self._choice.study(model.provider)

    async def _find_sandbox(self) -> str:
        from sagent.sandbox.report import held_by, shortfall

        held = await asyncio.to_thread(held_by, self._sandbox)
        if not self._held and (missing := shortfall(self._sandbox)):
            self._warn(missing)
        self._held = held
        return held

    async def finish(self) -> str:
        """Log git's answer, for which the run has waited long enough, and the sandbox's means and the model's address
        if they are new."""
        state: dict[str, object] = {}
        if self._git is not None:
            state, self._git = await asyncio.to_thread(read_git_status, self._git), None
        if (held := await self._find_sandbox()) != self._logged:  # a person may have switched it
            state, self._logged = {**state, "sandbox": held}, held
        self._log_new(state | self._new_address())
        return held

    def _new_address(self) -> dict[str, object]:
        address = "" if self._agent is None else self._choice.address(self._agent.model.provider)
        before, self._known = self._known, address
        return {"address": self._known} if self._known != before else {}

    def _log_new(self, state: dict[str, object]) -> None:
        if state:
            with suppress(OSError):
                self._log.append(Environment(state))

    async def aclose(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._studying is not None:
            self._studying.cancel()
            await asyncio.wait([self._studying])
        if self._git is not None:
            self._git.kill()
            self._git.communicate()


def start_git_status(cwd: Path) -> subprocess.Popen[bytes] | None:
    """Ask git for the commit and whether tracked files differ from it; None without a repository or git."""
    if repository_root(cwd) is None or (call := git_call(cwd, "status", "--porcelain=v2", "--branch", "-uno")) is None:
        return None
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    try:
        return subprocess.Popen(
            call.argv, env=call.environment, stdin=null, stdout=pipe, stderr=null, start_new_session=True
        )
    except OSError:
        return None


def read_git_status(git: subprocess.Popen[bytes]) -> dict[str, object]:
    """Return {"git_commit", "git_dirty"}, or {} if git does not answer within two seconds."""
    try:
        out, _ = git.communicate(timeout=2.0)
    except subprocess.TimeoutExpired:
        git.kill()
        git.communicate()
        return {}
    if git.returncode:
        return {}
    lines = out.decode("utf-8", "replace").splitlines()
    commit = next((line.split()[-1] for line in lines if line.startswith("# branch.oid")), "")
    return {"git_commit": commit, "git_dirty": any(not line.startswith("#") for line in lines)}
