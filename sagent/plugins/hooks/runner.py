"""Transport to hooks: a command gets JSON on its standard input, in the sandbox; a URL gets it as a POST."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.app.builder import HookAnswer
from sagent.lib.encoding import readable
from sagent.lib.process import ProcessGroup
from sagent.plugin import HookEvent
from sagent.plugins.hooks.answer import read_exit, read_json
from sagent.plugins.hooks.hook import MAX_SECONDS, Hook
from sagent.plugins.programs.piped import PipedProcess
from sagent.sandbox import Confined, Sandbox

if TYPE_CHECKING:
    from sagent.providers.wire.transport import DirectTransport
    from sagent.sandbox.profile import Profile

MAX_OUTPUT_BYTES = 1 << 20  # that a hook may answer
_MAX_ERROR_BYTES = 1 << 16
_LAST_OUTPUT_SECONDS = 0.2  # seconds for output to arrive after the command has ended


class HookRunner:
    """Runs hooks in the project's directory. `environment` returns the variables for commands, without keys, and
    `profile` their sandbox profile; `warn` receives changes that the sandbox undid."""

    def __init__(
        self,
        sandbox: Sandbox,
        profile: "Callable[[], Profile]",
        directory: Path,
        environment: Callable[[], Mapping[str, str]],
        warn: Callable[[str], None],
    ) -> None:
        self._sandbox, self._profile, self.directory = sandbox, profile, directory
        self._environment, self._warn = environment, warn
        self._group = ProcessGroup()
        self._transport: DirectTransport | None = None

    async def ask(self, hook: Hook, event: HookEvent, data: bytes) -> HookAnswer:
        """Return a hook's answer to an event. Any error is in the answer's `fault`."""
        limit = asyncio.timeout(hook.timeout)
        try:
            async with limit:
                return await (self._post(hook, data) if hook.url else self._run(hook, event, data))
        except TimeoutError:
            late = f"did not answer within {hook.timeout:g} s"
            return HookAnswer(fault=late if limit.expired() else "did not run: a time limit was reached")
        except (OSError, ValueError) as error:
            return HookAnswer(fault=f"could not be started: {error}")

    async def aclose(self) -> None:
        """End what commands have left running."""
        await self._group.aclose()
        if self._transport is not None:
            await self._transport.aclose()

    async def _run(self, hook: Hook, event: HookEvent, data: bytes) -> HookAnswer:
        from sagent.errors import ToolError

        argv = ["/bin/sh", "-c", hook.command]
        try:
            confined = await self._confined(argv, hook)
        except ToolError as error:  # without the sandbox it is not run
            return HookAnswer(fault=f"was not run: {error}")
        attended = confined.attend()
        try:
            known = {"CLAUDE_PROJECT_DIR": str(self.directory), "SAGENT_PROJECT_DIR": str(self.directory)}
            plugin = {"CLAUDE_PLUGIN_ROOT": hook.root} if hook.root else {}
            argv, environment = confined.launched({**self._environment(), **known, **plugin})
            code, out, err = await self._finish(argv, environment, data)
        finally:
            for undone in (*attended(), *confined.finish()):
                self._warn(f"Hook {hook}: {undone}")
        if len(out) > MAX_OUTPUT_BYTES:
            return HookAnswer(fault=f"printed more than {MAX_OUTPUT_BYTES >> 20} MiB")
        return read_exit(event, code, readable(out), err)

    async def _confined(self, argv: Sequence[str], hook: Hook) -> Confined:
        if not self._sandbox.stands:
            return Confined(argv)
        needs = self._sandbox.asked(hook.needs)
        # separate from the model's processes, which could end a hook that would refuse its next call
        return await self._sandbox.confine(argv, self._profile(), self.directory, needs, lasting=True)

    async def _finish(self, argv: Sequence[str], environment: Mapping[str, str], data: bytes) -> tuple[int, bytes, str]:
        """Run a command to its end; return its exit code and output. Its background processes may continue, but no
        longer than the session."""
        printed = bytearray()
        program = await PipedProcess.start(
            self._group, argv, environment, self.directory, max_stderr_bytes=_MAX_ERROR_BYTES
        )
        reading = asyncio.create_task(_collect(program.reader, printed))
        try:
            program.writer.write(data)
            program.writer.close()
            await program.process.ended()
            await asyncio.wait([reading, program.stderr_task], timeout=_LAST_OUTPUT_SECONDS)
        except BaseException:
            await program.process.kill_tree()
            raise
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            program.close()
        return program.process.code, bytes(printed), program.stderr

    async def _post(self, hook: Hook, data: bytes) -> HookAnswer:
        """Post data to a hook and return its answer. A redirect is not followed, because it may lead to an unnamed
        host."""
        from sagent.providers.wire.exchange import read_answer
        from sagent.providers.wire.faults import ExchangeFailed
        from sagent.providers.wire.transport import DirectTransport

        self._transport = self._transport or DirectTransport()
        headers, most = {"content-type": "application/json", **hook.headers}, MAX_OUTPUT_BYTES + 1
        try:
            answer, body = await read_answer(
                self._transport, hook.url, headers, [data], timeout=MAX_SECONDS, max_bytes=most
            )
        except ExchangeFailed as error:
            return HookAnswer(fault=f"could not be reached: {error}")
        if not 200 <= answer.status < 300:
            return HookAnswer(fault=f"answered with status {answer.status}")
        if len(body) == most:
            return HookAnswer(fault=f"answered more than {MAX_OUTPUT_BYTES >> 20} MiB")
        said = readable(body).strip()
        return read_json(hook.event, said) if said else HookAnswer()


async def _collect(reader: asyncio.StreamReader, output: bytearray) -> None:
    """Read to the end, and drop data beyond the limit plus one byte, because a blocked writer would never end."""
    while piece := await reader.read(1 << 16):
        output += piece[: max(0, MAX_OUTPUT_BYTES + 1 - len(output))]
