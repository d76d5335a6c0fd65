"""How a hook is asked: a command gets JSON on its standard input, in the sandbox; a URL gets it as a POST."""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.hooks.answer import Answer, read_exit, read_json
from sagent.hooks.hook import Hook
from sagent.lib.process import ProcessGroup, open_reader
from sagent.sandbox import Confined, Sandbox

if TYPE_CHECKING:
    from sagent.providers.wire.transport import DirectTransport
    from sagent.sandbox.profile import Profile

MOST_OUTPUT = 1 << 20  # bytes that a hook may answer
_MOST_ERRORS = 1 << 16
_LAST = 0.2  # seconds for what was printed to arrive, once the command itself has ended


class HookRunner:
    """Asks hooks, in the project's directory. `environment` gives the variables that commands get, without keys, and
    `profile` says what they may touch; `warn` gets what the sandbox undid."""

    def __init__(
        self,
        sandbox: Sandbox,
        profile: "Callable[[], Profile]",
        directory: Path,
        environment: Callable[[], Mapping[str, str]],
        warn: Callable[[str], None],
    ) -> None:
        self._sandbox, self._profile, self._directory = sandbox, profile, directory
        self._environment, self._warn = environment, warn
        self._group = ProcessGroup()
        self._transport: DirectTransport | None = None

    async def ask(self, hook: Hook, data: bytes) -> Answer:
        """What a hook says. Whatever goes wrong is in the answer's `fault`."""
        limit = asyncio.timeout(hook.timeout)
        try:
            async with limit:
                return await (self._post(hook, data) if hook.url else self._run(hook, data))
        except TimeoutError:
            late = f"did not answer within {hook.timeout:g} s"
            return Answer(fault=late if limit.expired() else "could not be asked: a time limit was reached")
        except (OSError, ValueError) as error:
            return Answer(fault=f"could not be started: {error}")

    async def aclose(self) -> None:
        """End what commands have left running."""
        await self._group.aclose()
        if self._transport is not None:
            await self._transport.aclose()

    async def _run(self, hook: Hook, data: bytes) -> Answer:
        from sagent.errors import ToolError

        argv = ["/bin/sh", "-c", hook.command]
        try:
            confined = await self._confined(argv, hook)
        except ToolError as error:  # without the sandbox it is not run
            return Answer(fault=f"was not run: {error}")
        attended = confined.attend()
        try:
            known = {"CLAUDE_PROJECT_DIR": str(self._directory), "SAGENT_PROJECT_DIR": str(self._directory)}
            plugin = {"CLAUDE_PLUGIN_ROOT": hook.root} if hook.root else {}
            argv, environment = confined.launched({**self._environment(), **known, **plugin})
            code, out, err = await self._finish(argv, environment, data)
        finally:
            for undone in (*attended(), *confined.finish()):
                self._warn(f"Hook {hook}: {undone}")
        if len(out) > MOST_OUTPUT:
            return Answer(fault=f"printed more than {MOST_OUTPUT >> 20} MiB")
        return read_exit(hook.event, code, out.decode(errors="replace"), err.decode(errors="replace"))

    async def _confined(self, argv: Sequence[str], hook: Hook) -> Confined:
        if not self._sandbox.stands:
            return Confined(argv)
        needs = self._sandbox.asked(hook.needs)
        # apart from what the model has started, which could end a hook that would refuse its next call
        return await self._sandbox.confine(argv, self._profile(), self._directory, needs, lasting=True)

    async def _finish(
        self, argv: Sequence[str], environment: Mapping[str, str], data: bytes
    ) -> tuple[int, bytes, bytes]:
        """Run a command to its end; its exit code and what it printed. What it leaves in the background may go on, but
        no longer than the session."""
        (output, written), (errors, uttered) = os.pipe(), os.pipe()
        with contextlib.ExitStack() as ends, tempfile.TemporaryFile() as given:
            given.write(data)
            given.seek(0)
            try:
                process = self._group.start(
                    argv, env=environment, input=given.fileno(), output=written, errors=uttered, cwd=self._directory
                )
            except BaseException:
                os.close(output)
                os.close(errors)
                raise
            finally:
                os.close(written)
                os.close(uttered)
            ends.callback(process.close)
            printed, said = bytearray(), bytearray()
            readers = [
                asyncio.create_task(_collect(output, printed, MOST_OUTPUT)),
                asyncio.create_task(_collect(errors, said, _MOST_ERRORS)),
            ]
            try:
                await process.ended()
                await asyncio.wait(readers, timeout=_LAST)
            except BaseException:
                await process.kill()
                raise
            finally:
                for reader in readers:
                    reader.cancel()
                await asyncio.gather(*readers, return_exceptions=True)
            return process.code, bytes(printed), bytes(said)

    async def _post(self, hook: Hook, data: bytes) -> Answer:
        """A redirect is not followed: it may lead to a host that nobody has named."""
        from sagent.providers.wire.disruption import Disrupted
        from sagent.providers.wire.transport import DirectTransport

        self._transport = self._transport or DirectTransport()
        try:
            answer = await self._transport.post(hook.url, {"content-type": "application/json", **hook.headers}, [data])
            try:
                body = b""
                async for chunk in answer.chunks:
                    body += chunk
                    if len(body) > MOST_OUTPUT:
                        return Answer(fault=f"answered more than {MOST_OUTPUT >> 20} MiB")
            finally:
                await answer.aclose()
        except Disrupted as error:
            return Answer(fault=f"could not be reached: {error}")
        if not 200 <= answer.status < 300:
            return Answer(fault=f"answered with status {answer.status}")
        said = body.decode(errors="replace").strip()
        return read_json(hook.event, said) if said else Answer()


async def _collect(source: int, found: bytearray, most: int) -> None:
    """Read to the end; what is more than `most` bytes, and one, is read and dropped: who cannot write cannot end."""
    reader, transport = await open_reader(source)
    try:
        while piece := await reader.read(1 << 16):
            found += piece[: max(0, most + 1 - len(found))]
    finally:
        transport.close()
