"""The Notebook tool: a kernel runs code, or a cell of a notebook, and is kept for the session."""

import asyncio
import json
import os
from base64 import b64decode
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.errors import ToolError
from sagent.lib.json import JsonObject, as_array, as_object, as_str
from sagent.lib.process import ProcessGroup
from sagent.messages import Image, Text
from sagent.sandbox import Confined, Sandbox
from sagent.tool import Effect, Media, RunContext, ToolOutput, Workspace, arguments_schema
from sagent.tools.capture import without_colours
from sagent.tools.exports import names_given, profile_of
from sagent.tools.media import media_in
from sagent.tools.notebook import joined_text

if TYPE_CHECKING:
    from sagent.app.builder import AgentBuilder
    from sagent.plugins.notebook.link import Kernel
    from sagent.sandbox.profile import Profile

DEFAULT_SECONDS, MAX_SECONDS = 120.0, 3600.0
MAX_NOTEBOOK_BYTES = 50_000_000  # of a notebook
_STATES = {
    "late": "it took longer than {seconds:g} s and was interrupted, or its kernel was ended",
    "interrupted": "it was interrupted",
    "ended": "the kernel has ended: its variables are gone, and the next call starts another",
}


def make(builder: "AgentBuilder") -> "Notebook":
    """Make the tool for an agent: it runs in the sandbox and hides keys, as Bash does."""
    from sagent.app.builder import withheld

    settings = builder.settings
    return Notebook(keep_keys=settings.env_pass, withheld=withheld(settings), sandbox=builder.sandbox)


class Notebook:
    """Runs Python in a Jupyter kernel, one for each agent. `aclose` ends the kernels. The parameters are those of
    Bash."""

    name = "Notebook"
    deferrable = True
    description = (
        "Run Python in a Jupyter kernel that keeps its variables: `code`, or the `cell` (from 1) of the notebook"
        " `file_path`, which is not changed. Images are shown."
    )
    parameters = arguments_schema(
        code={"type": "string"},
        file_path={"type": "string"},
        cell={"type": "integer", "minimum": 1},
        timeout={"type": "number", "description": "Seconds, default 120, max 3600"},
        restart={"type": "boolean", "description": "with a new kernel"},
    )

    def __init__(
        self, *, keep_keys: Collection[str] = (), withheld: Collection[str] = (), sandbox: Sandbox | None = None
    ) -> None:
        self._keep, self._withheld = names_given("keep_keys", keep_keys), names_given("withheld", withheld)
        self._sandbox = sandbox
        self._processes = ProcessGroup()
        self._turns: dict[str, asyncio.Lock] = {}  # by agent
        self._kernels: dict[str, tuple[Kernel, Profile | None]] = {}  # by agent, with the sandbox profile of each

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        """The effect of running the code, as with `python -c`."""
        import shlex

        command = f"python3 -c {shlex.quote(_code(arguments, workspace))}"
        sandbox = self._sandbox
        holds = sandbox is not None and sandbox.stands and sandbox.holds(profile_of(workspace))
        return Effect("execute", command=command, confined=holds)

    def lacking(self) -> tuple[str, str]:
        """Return the extra that is not installed and the command that installs it, or empty strings."""
        command = _to_install()
        return ("notebook" if command else "", command)

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Run the code. Raises ToolError if there is no kernel, and without the extra `notebook`."""
        _check_installed()
        code = _judged(run.effect) or _code(arguments, run.workspace)
        seconds = arguments.get("timeout", DEFAULT_SECONDS)
        limit = float(min(seconds if isinstance(seconds, int | float) else DEFAULT_SECONDS, MAX_SECONDS))
        if limit <= 0:
            raise ToolError("timeout: give a number of seconds above 0")
        async with self._turns.setdefault(run.agent, asyncio.Lock()):
            kernel, notes = await self._kernel(run, anew=arguments.get("restart") is True)
            finish = kernel.confined.attend()
            try:
                answer = await kernel.run(code, limit, lambda text: run.progress(without_colours(text)))
            finally:
                notes += finish()
            if as_str(answer.get("state")) not in ("done", *_STATES):
                await kernel.close()
        return await asyncio.to_thread(_output, answer, notes, limit)

    async def aclose(self) -> None:
        """End all kernels. The tool can be used again afterwards."""
        kernels, self._kernels = self._kernels, {}
        await asyncio.gather(*(kernel.close() for kernel, _ in kernels.values()), return_exceptions=True)
        await self._processes.aclose()

    def close(self) -> None:
        self._processes.close()

    async def _kernel(self, run: RunContext, *, anew: bool) -> "tuple[Kernel, list[str]]":
        """Return the agent's kernel, with notes on it. A new one is started if none runs within the present profile."""
        from sagent.lib.secrets import without_keys
        from sagent.plugins.notebook.link import Kernel, command, python_of

        workspace, sandbox = run.workspace, self._sandbox
        held = sandbox is not None and sandbox.stands
        profile = profile_of(workspace) if held else None
        known = self._kernels.get(run.agent)
        notes: list[str] = []
        if known is not None:
            kernel, before = known
            if kernel.alive and before == profile and not anew:
                return kernel, notes
            if kernel.alive and not anew:
                notes.append(
                    "what commands may do has changed: this ran in a new kernel, and earlier variables are gone"
                )
            await kernel.close()
        argv = command(python_of(workspace.cwd))
        confined = Confined(argv)
        if held and sandbox is not None and profile is not None:
            if sandbox.means.name == "landlock":
                raise ToolError(
                    "There is no kernel: it has to listen on a socket, which Landlock does not allow. Use Bash;"
                    " the person can install bubblewrap."
                )
            confined = await sandbox.confine(argv, profile, workspace.cwd, lasting=True)
        environment = without_keys(os.environ, self._keep, self._withheld)
        quiet = {"MPLBACKEND": "module://matplotlib_inline.backend_inline", "NO_COLOR": "1"}
        kernel = await Kernel.start(self._processes, confined, {**environment, **quiet}, workspace.cwd)
        self._kernels[run.agent] = kernel, profile
        return kernel, notes


def _judged(effect: Effect | None) -> str:
    """Return the code that was judged, even if the notebook has changed since."""
    import shlex

    return shlex.split(effect.command)[2] if effect is not None and effect.command else ""


def _code(arguments: JsonObject, workspace: Workspace) -> str:
    """Return the code to run. Raises ToolError."""
    code, path, cell = as_str(arguments.get("code")), as_str(arguments.get("file_path")), arguments.get("cell")
    if bool(code.strip()) == bool(path):
        raise ToolError("Give either code, or file_path and cell.")
    if not path:
        return code
    cells = _cells(workspace.resolve(path), workspace)
    if not isinstance(cell, int) or cell > len(cells):
        raise ToolError(f"{path} has {len(cells)} cells: give one of them as cell.")
    found = as_object(cells[cell - 1])
    text = joined_text(found.get("source"))
    if found.get("cell_type") != "code" or not text.strip():
        raise ToolError(f"Cell {cell} of {path} has no code: it is {as_str(found.get('cell_type')) or 'empty'}.")
    return text


def _cells(path: Path, workspace: Workspace) -> Sequence[object]:
    """Return the cells of a notebook that may be read. Raises ToolError."""
    from sagent.lib.regular import read_regular
    from sagent.tools.paths import as_tool_errors

    real = path.resolve()
    if workspace.hidden is not None and any(workspace.hidden("Read", each.parent)(each.name) for each in (path, real)):
        raise ToolError(f"{path} may not be read.")
    with as_tool_errors(path, workspace):
        data = read_regular(real, max_bytes=MAX_NOTEBOOK_BYTES)
    try:
        return as_array(as_object(json.loads(data)).get("cells"))
    except (ValueError, RecursionError):
        raise ToolError(f"{path} is not a notebook.") from None


def _output(answer: Mapping[str, object], notes: list[str], seconds: float) -> ToolOutput:
    parts: list[Media] = []
    for part in map(as_object, as_array(answer.get("parts"))):
        if "text" in part:
            parts.append(Text(without_colours(as_str(part["text"]))))
            continue
        with suppress(ValueError):
            if isinstance(image := media_in(b64decode(as_str(part.get("data"))), "output"), Image):
                parts.append(image)
                continue
        parts.append(Text("(an image that cannot be shown)\n"))
    state = as_str(answer.get("state"))
    if state != "done":
        why = _STATES[state].format(seconds=seconds) if state in _STATES else f"there is no kernel: {state}"
        notes = [why, *notes]
    parts += [Text(f"[{note}]\n") for note in notes]
    shown = sum(isinstance(part, Image) for part in parts)
    failed = answer.get("error") is True
    summary = "error" if failed else f"{shown} images" if shown else "done"
    return ToolOutput(tuple(parts) or (Text("(no output)"),), is_error=failed, summary=summary)


def _check_installed() -> None:
    if command := _to_install():
        raise ToolError(f"Notebook needs packages that are not installed: {command}. Use Bash.")


def _to_install() -> str:
    """Return the command that installs the missing package, or ""."""
    from importlib.util import find_spec

    if all(map(find_spec, ("jupyter_client", "ipykernel"))):
        return ""
    from sagent.lib.installed import install_command
    from sagent.plugins.notebook import PACKAGES

    return install_command("notebook", PACKAGES)
