"""Descriptions of paths: short names for existing files, and suggestions for missing ones."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from sagent.errors import ToolError
from sagent.lib.names import quote_path
from sagent.lib.text import system_reason
from sagent.tool import Effect, RunContext, Workspace

_MAX_NAME_CHARS = 400  # characters of a path


def judged_path(path: Path, run: RunContext) -> Path:
    """Return the target of a call's path as the policy saw it, even if a command has replaced it since."""
    return run.effect.real if run.effect is not None and run.effect.real else _real(path, run.workspace)


def foreseen(kind: Literal["read", "write"], path: Path, workspace: Workspace, *, hides: bool = False) -> Effect:
    """Return the effect of a call that touches one file, or reads below one directory; `hidden_filter` as in Effect."""
    return Effect(kind, (path,), real=_real(path, workspace), hides=hides)


def _real(path: Path, workspace: Workspace) -> Path:
    with as_tool_errors(path):
        return workspace.follow(path)


def hidden_filter(tool: str, path: Path, real: Path, workspace: Workspace) -> Callable[[str], bool]:
    """Return a filter for files below a directory that its search must not show, by spelled or real path."""
    if workspace.hidden is None:
        return lambda _: False
    if path == real:
        return workspace.hidden(tool, real)
    spelled, really = workspace.hidden(tool, path), workspace.hidden(tool, real)
    return lambda relative: spelled(relative) or really(relative)


def made_by_commands(real: Path, workspace: Workspace) -> list[str]:
    """Describe where else a directory may be for which commands have another one; "" for all others."""
    owns = [own for place, own in workspace.temporary.items() if str(real) == os.path.realpath(place)]
    return [f"(What commands made there lies in {own}.)" for own in owns if own != real and any(own.iterdir())]


def short_path(path: Path, workspace: Workspace) -> str:
    """Return a path for the model: relative to the working directory if it is below it."""
    return str(path.relative_to(workspace.cwd)) if path.is_relative_to(workspace.cwd) else str(path)


def quoted_name(path: Path) -> str:
    """Return a path for a message: quoted if it is not printable, and shortened."""
    text = quote_path(str(path))
    return text if len(text) <= _MAX_NAME_CHARS else f"{text[: _MAX_NAME_CHARS // 2]}...{text[-_MAX_NAME_CHARS // 2 :]}"


def prefix(directory: Path, workspace: Workspace) -> str:
    """Return the prefix of short paths below a directory: "" for the working directory."""
    name = short_path(directory, workspace)
    return "" if name == "." else f"{name.rstrip('/')}/"


def missing_error(path: Path, workspace: Workspace) -> ToolError:
    """Return the error for a missing path, with similar names nearby."""
    parent = path.parent
    while not os.path.isdir(parent) and parent != parent.parent:  # noqa: PTH112 -- which raises nothing
        parent = parent.parent
    wanted = path.relative_to(parent).parts[0]
    if os.path.islink(parent / wanted):  # noqa: PTH114 -- which raises nothing
        leads = quote_path(str((parent / wanted).readlink()))
        return ToolError(
            f"{quoted_name(parent / wanted)} is a symlink that leads nowhere: to {leads}, which does not exist."
        )
    try:
        names = [entry.name for entry in parent.iterdir()]
    except OSError:
        names = []
    hint = _near(wanted, names, parent, workspace) or f" The working directory is {workspace.cwd}."
    if parent != path.parent:
        hint = f" {quoted_name(parent)} exists, {quoted_name(parent / wanted)} does not.{hint}"
    return ToolError(f"There is no file {quoted_name(path)}.{hint}")


@contextmanager
def as_tool_errors(path: Path, workspace: Workspace | None = None) -> Generator[None]:
    """Turn the system's errors about a path into a ToolError; with a workspace, suggest names near a missing one."""
    try:
        yield
    except OSError as error:
        if workspace is not None and isinstance(error, FileNotFoundError):
            raise missing_error(path, workspace) from None
        raise ToolError(f"{quoted_name(path)}: {system_reason(error)}.") from None
    except ValueError as error:  # an impossible name
        raise ToolError(f"{quoted_name(path)}: {error}.") from None


def _near(target: str, names: list[str], parent: Path, workspace: Workspace) -> str:
    from difflib import get_close_matches

    from sagent.lib.lookalike import look_alike
    from sagent.lib.names import quote_exactly

    lower = {name.lower(): name for name in names}
    stem = target.lower().partition(".")[0]
    if alike := [name for name in names if look_alike(name, target)][:3]:
        shown = " or ".join(quote_exactly(short_path(parent / name, workspace)) for name in alike)
        return f" Did you mean {shown}? It looks like {quote_exactly(target)}, and is another name."
    near = [lower[name] for name in get_close_matches(target.lower(), lower, 3, 0.6)]
    near += sorted(name for name in names if stem and name.lower().partition(".")[0] == stem and name not in near)[:3]
    if not near:
        return ""
    return f" Did you mean {' or '.join(quote_path(short_path(parent / name, workspace)) for name in near[:3])}?"
