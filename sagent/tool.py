"""Interface of a tool: its description, its effects, and its workspace."""

import hashlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeAlias, cast, runtime_checkable

from sagent.errors import ToolError
from sagent.lib.dataclass import Data_co, Deps_contra, dataclass
from sagent.lib.json import JsonObject, json_dump, json_freeze, json_freeze_object
from sagent.lib.names import find_path, lies_in, path_of, quote_path, unquote_path, why_no_path
from sagent.lib.regular import open_regular
from sagent.messages import Document, Image, Text
from sagent.peer import Caller

if TYPE_CHECKING:
    from sagent.sandbox.profile import Need, Profile

_MAX_LINKS = 40  # out of the commands' private directory and back
Media: TypeAlias = Text | Image | Document
JsonLike: TypeAlias = "Mapping[str, object] | Sequence[object] | float | None"
Answer: TypeAlias = "ToolOutput | str | JsonLike"
PathFilter: TypeAlias = Callable[[str, Path], Callable[[str], bool]]
"""Returns, for a tool's name and a directory that it searches, a test for relative paths that must not be shown."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The output of a call. `summary` is a short outcome for a screen; `diff` a unified diff of a change."""

    content: tuple[Media, ...]
    is_error: bool = False
    summary: str = ""
    diff: str = ""

    @classmethod
    def of(cls, result: "Answer", *, summary: str = "", diff: str = "") -> "ToolOutput":
        """Return a result of text, or of a JSON value as text. Raises TypeError for other values, with its path."""
        if isinstance(result, ToolOutput):
            return result
        text = result if isinstance(result, str) else json_dump(json_freeze(result, "result"))
        return cls((Text(text),), summary=summary, diff=diff)


@dataclass(frozen=True, slots=True)
class Effect:
    """Effect of a call to be made: judged by the policy, and used to keep calls that touch the same thing in order.

    "execute" runs something that may touch anything, unless it is `confined`: then a sandbox limits it by the
    workspace's profile, and `needs` are requests beyond that, for a `reason`.
    """

    kind: Literal["none", "read", "write", "execute"]
    paths: tuple[Path, ...] = ()  # absolute, as given: symlinks are not yet resolved
    command: str = ""
    confined: bool = False
    needs: "tuple[Need, ...]" = ()
    reason: str = ""
    hides: bool = False  # a search that leaves out what `Workspace.hidden` says
    real: Path | None = None  # target of its single path, which is the only one the call may use
    check: Callable[[], None] | None = field(default=None, compare=False)  # raises ToolError if it fails in any case
    obeyed: tuple[str, ...] = ()  # what may run a program, of the files that a command outside a sandbox obeys


@dataclass(frozen=True, slots=True)
class Stamp:
    """A file's content as the agent last saw it."""

    mtime_ns: int
    size: int
    sha256: str


@dataclass(slots=True)
class Workspace:
    """Directory in which an agent's tools work, its roots, and the file states that they have seen.

    `environment` is the environment of shell commands: None is this process's own, until a command has changed it.
    `hidden` is the policy's decision about files inside an allowed directory: Grep and Glob skip those. `profile` is
    its decision about sandboxed commands. In place of the directories in `temporary`, commands see a private one with
    their new files. A tool writes a file within `changing`, which marks the change as intended. `blob_dir` has all
    blobs of the session, earlier ones too. `known_files` are those whose content the agent has read or written.
    """

    cwd: Path
    roots: tuple[Path, ...] = ()
    environment: dict[str, str] | None = None
    known_files: dict[Path, Stamp] = field(default_factory=dict[Path, Stamp])
    hidden: PathFilter | None = None
    profile: "ProfileOf | None" = None
    temporary: Mapping[str, Path] = field(default_factory=dict[str, Path])
    changing: Callable[[Path], AbstractContextManager[object]] = nullcontext
    blob_dir: Path | None = None

    def __post_init__(self) -> None:
        self.roots = self.roots or (self.cwd,)

    def resolve(self, path: str) -> Path:
        """Return an absolute path; `~` is the home, relative paths start at `cwd`. The policy follows symlinks.

        Names in the tools' quotes, `$'a\\nb'`, and `file://` URLs are accepted. Raises ToolError for other text.
        """
        path = unquote_path(path)
        if why := why_no_path(path):
            raise ToolError(f"not a path: {path!r}: {why}")
        found = find_path(Path(self.cwd, path_of(path)))
        if self.blob_dir and len(found.name) == 64 and (own := self.blob_dir / found.name).is_file():
            return own
        return self._seen_by_commands(found)

    def follow(self, path: Path) -> Path:
        """Resolve an absolute path, by links to what only commands see too."""
        real = Path(os.path.realpath(path))
        for _ in range(_MAX_LINKS):
            seen = self._seen_by_commands(real)
            if seen == real:
                break
            real = Path(os.path.realpath(seen))
        return real

    def _seen_by_commands(self, path: Path) -> Path:
        """Return where commands find an absolute path: new files of theirs are in a private directory."""
        for place, own in self.temporary.items():
            elsewhere = not path.is_relative_to(place) or any(map(path.is_relative_to, (own, *self.roots)))
            if not elsewhere and not os.path.lexists(path):
                return own / path.relative_to(place)
        return path

    def saw(self, path: Path, content: bytes, stat: os.stat_result | None = None) -> None:
        """Record the file's whole content as seen by the agent, whatever part was shown.

        `stat` is the file's from before it was read, so that a change in between is noticed.
        """
        real = Path(os.path.realpath(path))
        stat = stat or real.stat()
        self.known_files[real] = Stamp(stat.st_mtime_ns, stat.st_size, hashlib.sha256(content).hexdigest())

    def check_unchanged(self, path: Path) -> None:
        """Raise ToolError if an existing file was never read, or has changed since. New files pass."""
        real = Path(os.path.realpath(path))
        try:
            file = open_regular(real)
        except FileNotFoundError:
            return
        with file:
            stat, stamp = os.fstat(file.fileno()), self.known_files.get(real)
            if stamp is None:
                raise ToolError(f"{quote_path(str(path))} was not read in this session. Read it first, then change it.")
            if (stat.st_mtime_ns, stat.st_size) == (stamp.mtime_ns, stamp.size):
                return
            if stat.st_size == stamp.size and hashlib.file_digest(file, "sha256").hexdigest() == stamp.sha256:
                return
        raise ToolError(f"{quote_path(str(path))} has changed since it was read. Read it again, then change it.")


ProfileOf: TypeAlias = "Callable[[Workspace], Profile]"


class Blobs(Protocol):
    """Store of large payloads, named by their sha256. Each call returns the path to show to the model."""

    def put(self, data: bytes) -> Path: ...

    def adopt(self, path: Path, *, sha256: str | None = None) -> Path:
        """Take over a finished file of any size by moving it. If its hash is given, it is not read."""
        ...

    def scratch(self) -> Path:
        """Return a new path for a file being written, on the same file system as the blobs."""
        ...

    def show(self, path: Path) -> Path: ...  # lets sandboxed commands read this file from now on
    def drop(self, path: Path) -> None: ...  # removes a scratch file, even one that was shown
    def shown(self) -> tuple[Path, Path]: ...  # the directory of all files, and one with only the shown ones


@dataclass(frozen=True, slots=True)
class RunContext(Generic[Data_co]):
    """Context of a running call: the agent's path, its workspace, its blobs, progress to show, the run's `deps`.

    `caller` is the agent itself, for tools that concern agents: its cost, other agents. `in_background` is True if the
    call has become a job. With `offer_detach`, a call that can continue without this process passes a function that
    detaches it. That function is called at most once, while the call runs, and returns the output's path, or raises
    ToolError and changes nothing; the call should then end at once. `effect` is the judged effect, if any: a path's
    target may have changed since.
    """

    agent: str
    call_id: str
    workspace: Workspace
    blobs: Blobs
    progress: Callable[[str], None]
    caller: Caller | None = None
    in_background: Callable[[], bool] = lambda: False
    offer_detach: Callable[[Callable[[], str]], None] = lambda _: None
    effect: Effect | None = None
    deps: Data_co = field(default=cast("Data_co", None), repr=False)  # may hold keys


class Tool(Protocol[Deps_contra]):
    """A tool: a name, a description, the schema of its arguments, and a call. It may also have the attributes that
    `Traits` names, and an `effect` (see Foreseeable).

    A call raises ToolError, or anything else, to answer with an error result; it never ends the run.
    """

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def parameters(self) -> Mapping[str, object]:
        """JSON Schema of the arguments; they are validated against it before the call."""
        ...

    def __call__(self, arguments: JsonObject, run: RunContext[Deps_contra], /) -> Awaitable[Answer]: ...


@dataclass(frozen=True, slots=True)
class Traits:
    """Traits that a tool may declare by attributes of these names; for one that does not, the defaults hold.

    A call of a `quick` tool ends soon: it cannot be delayed or put into the background. A `lenient` one ignores
    arguments that do not fit its schema: its call is not refused for them, with "schema" if they are an object. A
    `deferrable` one is left out of requests that are too large, and found by a search; an "along" one only with others.
    """

    quick: bool = False
    lenient: bool | Literal["schema"] = False
    deferrable: bool | Literal["along"] = False


def traits_of(tool: Tool) -> Traits:
    """Return the traits of a tool. Raises TypeError for an attribute of another type."""
    said: dict[str, object] = {name: getattr(tool, name, False) for name in ("quick", "lenient", "deferrable")}
    for name, value in said.items():
        if not isinstance(value, bool) and (name, value) not in (("deferrable", "along"), ("lenient", "schema")):
            raise TypeError(f"{tool.name}.{name} is {value!r:.60}: give True or False")
    return Traits(**cast("dict[str, bool]", said))


@runtime_checkable
class Foreseeable(Protocol):
    """A tool that can predict the effect of a call. Other tools count as "execute"."""

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        """Return what this call would do. Raises ToolError for invalid arguments."""
        ...


class Harmless:
    """A tool whose calls have no effects themselves."""

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        del arguments, workspace
        return Effect("none")


def arguments_schema(*required: str, **properties: Mapping[str, object]) -> JsonObject:
    """Return the JSON Schema of a call's arguments; a call with others is refused."""
    needed = {"required": required} if required else {}
    return json_freeze_object({"type": "object", "properties": properties, **needed, "additionalProperties": False})


def foresee(tool: Tool, arguments: JsonObject, workspace: Workspace) -> Effect:
    """Return the predicted effect of a call."""
    if isinstance(tool, Foreseeable) and callable(tool.effect):
        return tool.effect(arguments, workspace)
    return Effect("execute")


def conflict(first: Effect, second: Effect) -> bool:
    """Return True if two calls of one turn must run in the order given: one writes a path that the other touches, or
    that lies in a directory that it touches, or runs a command."""
    kinds = {first.kind, second.kind}
    if "write" not in kinds or "execute" in kinds:
        return "write" in kinds
    own, others = ({os.path.realpath(path) for path in effect.paths} for effect in (first, second))
    return any(lies_in(path, others) for path in own) or any(lies_in(path, own) for path in others)
