"""The sandbox of a session: finds a means to confine commands and runs commands within profiles."""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias, assert_never, cast

from sagent.errors import ToolError, UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.names import lies_in
from sagent.lib.text import failure
from sagent.plugin import extra_of_ours

if TYPE_CHECKING:
    from sagent.sandbox.bubblewrap import Boxes, View
    from sagent.sandbox.guard import Guard, Watch
    from sagent.sandbox.landlock import Wall
    from sagent.sandbox.plants import Plants, ProtectedPaths
    from sagent.sandbox.probe import Confinement
    from sagent.sandbox.profile import Need, Profile
    from sagent.sandbox.scratch import Scratch
    from sagent.sandbox.tasks import Watchdog

SandboxMode: TypeAlias = Literal["required", "auto", "off"]

# Variables that loaders and C libraries obey in any program, and ignore in setuid programs. LANGUAGE can load a
# command's own message catalogs, which are format strings.
_STEERING = ("LD_", "DYLD_", "GLIBC_TUNABLES", "GCONV_PATH", "LANGUAGE", "LOCPATH", "NLSPATH", "MUSL_", "MALLOC_")

_REGISTER = "before"  # a directory of the cache
_CHECK_INTERVAL_SECONDS = 1.0  # between checks of protected paths while a command runs
_AGAIN = 'If it is wanted, it can be written again with `needs` "write:FILE", or put back by hand'
_MAX_TOLD = 20  # paths to list in one sentence
_BREATH_SECONDS = 0.05  # between two looks at further directories
NETWORK = "sandbox network"  # the extension point for a class with the methods of `Network`
_NO_NETWORK = "that needs the plugin network, which is not loaded"
MAX_WAIT_SECONDS = 30.0  # for a command outside the sandbox to end
_LAST_SECONDS = 2.0  # for directories left over at the end of a session


@dataclass(frozen=True, slots=True)
class Confined:
    """A command line to run within a profile, and additions to its environment. Without a profile it runs unchanged.
    `wall` is the prefix that confines it.

    Call `detach` before the command may outlive this process, and `finish` when it has ended or could not start.
    `finish` returns sentences for the model about changes that were undone; a second call does nothing. For a lasting
    command, changes are checked only between `attend` and a call of the function it returns, which acts like `finish`.
    """

    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    profile: "Profile | None" = None
    detach: Callable[[], None] = lambda: None
    finish: Callable[[], Sequence[str]] = tuple
    wall: Sequence[str] = ()
    attend: Callable[[], Callable[[], Sequence[str]]] = lambda: tuple
    cwd: Path | None = None  # directory to start it in, if not the caller's

    def launched(self, environment: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
        """Return the command line to start, and the environment for it: this one with the command's additions.

        Variables that make a program load other code take effect only inside the wall, because an earlier command may
        have exported them.
        """
        if not self.wall:
            return [*self.argv], {**environment, **self.environment}
        outside = {name: value for name, value in environment.items() if not name.startswith(_STEERING)}
        inside = [f"{name}={value}" for name, value in environment.items() if name not in outside]
        # env finds a program without a path inside the wall, and reports a missing one
        by_name = "/" not in self.argv[0] or not os.access(self.argv[0], os.X_OK)
        env = ["/usr/bin/env", *inside] if inside or by_name else []
        return [*self.wall, *env, *self.argv], {**outside, **self.environment}


class Access(NamedTuple):
    """A command's access to hosts: variables that lead its programs to a proxy, and the proxy's port. `end` ends access
    for this command alone, and returns sentences for the model about refused hosts."""

    environment: Mapping[str, str] = {}
    port: int = 0
    end: Callable[[], Sequence[str]] = tuple


class Network(Protocol):
    """The ways of a session's commands to hosts. A plugin has the class: its argument is a directory for sockets."""

    async def admit(self, domains: tuple[str, ...], view: "View | None", *, once: bool) -> Access:
        """Let a command reach hosts, from a view's box or from this machine. Access `once` ends with the command,
        because a later one could reuse it. Raises ToolError."""
        ...

    async def aclose(self) -> None:
        """End all connections."""
        ...


def _surveyed(profile: "Profile") -> Sequence[str]:
    """Return the directories that a command can write and a person may run git in: not the caches of build tools."""
    caches = _caches()
    return [place for place in profile.writable if place not in caches]


def _caches() -> frozenset[str]:
    from sagent.sandbox.places import known_places, really_below

    return really_below(os.path.expanduser("~"), known_places().caches)  # noqa: PTH111 -- may have no home


def _listing(paths: Sequence[str]) -> str:
    more = len(paths) - _MAX_TOLD
    return ", ".join(paths[:_MAX_TOLD]) + (f" and {more} more" if more > 0 else "")


def _reached(profile: "Profile") -> tuple[str, ...]:
    """Return the hosts that decide which commands share a box: within a box, a command could use another's access."""
    return tuple(sorted(profile.domains))


class Sandbox:
    """Runs commands within profiles. One instance serves all agents of a session; `aclose` ends any process still
    running.

    `mode`: "auto" uses the best means available, "required" raises UsageError if there is none, "off" uses none. The
    means found are cached in the directory `cache`. `memory` limits the data of each process, in bytes; the default is
    four fifths of the machine's memory.
    """

    def __init__(self, mode: SandboxMode = "auto", *, cache: Path | None = None, memory: int | None = None) -> None:
        self.wanted: SandboxMode = mode
        self.warn: Callable[[str], None] = lambda text: None  # tells the person of undone or unknown changes
        self._cache = cache
        self._memory = memory or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 4 // 5
        self._means: Confinement | None = None
        self._scratch: Scratch | None = None
        self._register: Scratch | None = None
        self._watchdog: Watchdog | None = None  # ends processes when nothing else would
        self._sweeping: asyncio.Task[None] | None = None
        self._boxes: Boxes | None = None
        self._guard: Guard | None = None
        self._plants: Plants | None = None
        self._running: set[Watch] = set()
        self._obeying: dict[Watch, Callable[[], str]] = {}  # of commands outside, during which nothing starts inside
        self._may_start = asyncio.Event()
        self._may_start.set()
        self._outlived: dict[Sequence[str], Watch] = {}  # watches of commands that left a process running
        self._looking: asyncio.Task[None] | None = None
        self._network: Network | None = None
        self._stays = False
        self._reported: set[str] = set()  # directories too large to check completely
        if mode == "required" and not self.stands:
            raise UsageError(
                f"--sandbox required: there is no sandbox here, because {self.means.why}. With --sandbox auto, you "
                "are asked about commands instead."
            )

    def switch(self, wanted: SandboxMode) -> None:
        """Confine the following commands in another way; running ones continue unchanged. Raises UsageError, and
        changes nothing, if "required" finds no means."""
        means = Sandbox(wanted, cache=self._cache).means
        self.wanted, self._means = wanted, means

    @property
    def means(self) -> "Confinement":
        """The means to confine commands. They are tried on first use, which takes about 30 ms."""
        if self._means is None:
            from sagent.sandbox.probe import Confinement, probe

            self._means = Confinement("none", "it is switched off") if self.wanted == "off" else probe(self._cache)
        return self._means

    @property
    def known(self) -> "bool | None":
        """True if commands are confined at all; None if that was not tried yet."""
        return False if self.wanted == "off" else None if self._means is None else self.stands

    @property
    def stands(self) -> bool:
        """True if commands are confined at all."""
        return self.means.name != "none"

    def holds(self, profile: "Profile") -> bool:
        """Return True if all of a profile is enforced."""
        if self.means.name != "landlock":
            return self.stands
        from sagent.sandbox.guard import can_guard
        from sagent.sandbox.landlock import gaps

        unguarded = tuple(path for path in profile.protected if not can_guard(path))
        return not gaps(replace(profile, protected=unguarded, domains=()))

    def asked(self, needs: "Iterable[Need]") -> "tuple[Need, ...]":
        """Return the needs that a command gets if these are granted: Landlock cannot distinguish hosts."""
        from sagent.sandbox.profile import Need

        is_blunt = self.means.name == "landlock"
        return tuple(Need("network", "*") if is_blunt and need.kind == "network" else need for need in needs)

    @property
    def temporary(self) -> Mapping[str, Path]:
        """Directories that commands see differently or alone, with their real paths. Empty before the first command."""
        if self._boxes is not None:
            return self._boxes.mounts.private
        own = self._scratch and self._scratch.path / "tmp"
        return {str(own): own} if own and own.is_dir() else {}

    @property
    def is_busy(self) -> bool:
        """True if a command, or a process that one left behind, runs in the sandbox."""
        return any(watch.paths for watch in self._running) or self._lives()

    async def prepare(self, profile: "Profile") -> None:
        """Prepare the time-consuming parts that the next command within a profile needs. Raises ToolError."""
        held = frozenset[str]()
        match self.means.name:
            case "bubblewrap":
                held = (await self._open_boxes().view(profile, _reached(profile))).held
            case "landlock":  # loading it takes most of the first command's time
                (await self._make_wall(profile, (), 0)).close()
            case "seatbelt":
                pass
            case "none":
                return
        if self._guard is None:  # its first look takes longer
            self._finish(self._watch(profile.protected, held))

    async def confine(
        self,
        argv: Sequence[str],
        profile: "Profile",
        cwd: Path,
        needs: "Iterable[Need]" = (),
        *,
        lasting: bool = False,
        is_as_judged: Callable[[], bool] | None = None,
        lasts: Callable[[], str] = lambda: "",
    ) -> Confined:
        """Return the way to run a command line within a profile, extended by what was granted for it. Raises ToolError.

        Outside the sandbox, a command that obeys files of the workspace runs only if these are `is_as_judged`, which is
        checked last, and nothing starts inside until it has ended: it runs as it was judged. That is waited for, but
        not if it `lasts`: then nothing starts, and the error has this description of it.
        `lasting`: a long-running program of the person's, such as a language server. Its own changes are not undone,
        because the person works in the same files.
        """
        needs = tuple(needs)
        name = self.means.name
        if name == "none":
            return Confined(argv)
        if any(need.kind == "all" for need in needs):
            plants = self._plants  # git would obey a repository that was not checked yet
            if plants and (planted := await asyncio.to_thread(plants.go_on, self._kept, _LAST_SECONDS)):
                self.warn(self._disarmed(planted))
            if is_as_judged is not None and (self._others_run(profile) or not is_as_judged()):
                raise ToolError("The command was not run: files that it obeys may have changed since. Try again.")
            own = () if self.is_busy else profile.protected  # its changes cannot be told from others' otherwise
            watch = self._watch((), granted=own)
            watch.outside = True
            if is_as_judged is not None:
                self._obeying[watch] = lasts
                self._may_start.clear()
            return Confined(argv, finish=partial(self._finish, watch))
        await self._may_begin()
        from sagent.sandbox.obeyed import is_protected_name

        self._warn_of_size(profile)
        guarded, whose = frozenset(profile.protected), tuple(argv) if lasting else _reached(profile)
        if self._plants is not None and (made := self._plants.made_by_commands(guarded)):
            profile = replace(profile, protected=tuple(path for path in profile.protected if path not in made))
        profile, once = profile.widened(needs), any(need.kind == "network" for need in needs)
        self.sweep()
        view, program, access = None, None, Access()
        match name:
            case "bubblewrap":
                view = await self._open_boxes().view(profile, whose, apart=lasting)
                access = await self._reach(profile.domains, view, once=once)
                wall = view.entering((), str(cwd), memory=self._memory)
            case "landlock":
                program = await self._make_wall(profile, needs, self._own_scratch().marks[lasting])
                wall = [program.path]
            case "seatbelt":
                from sagent.sandbox.seatbelt import wrap as wrap_seatbelt

                access = await self._reach(profile.domains, None, once=once)
                wall = wrap_seatbelt((), profile, str(self._own_temporary()), access.port)
            case _:
                assert_never(name)
        # Of a directory, or a file that may become one, nothing that is obeyed in it.
        named = {*profile.allowed, *(need.target for need in needs if need.kind == "write")}
        granted = {path for path in named if is_protected_name(path) or lies_in(path, guarded)}
        held = view.held if view else frozenset[str]()
        roots = _surveyed(profile)
        watch = self._watch(() if lasting else profile.protected, held, granted, roots)
        finish = partial(self._finish, watch, access.end, view, program)
        attend = partial(self._watch, profile.protected, held, granted, roots)
        environment = {**self._environment(), **access.environment}
        return Confined(argv, environment, profile, self._detach, finish, wall, lambda: partial(self._finish, attend()))

    async def _may_begin(self) -> None:
        """Wait until no command outside obeys files that one inside could change. Raises ToolError."""
        end = time.monotonic() + MAX_WAIT_SECONDS
        while self._obeying:
            found = next(filter(None, (lasts() for lasts in self._obeying.values())), "")
            if found or time.monotonic() >= end:
                why = f"{found or 'a command'} outside of the sandbox obeys files here"
                raise ToolError(f"The command was not run: {why}. Wait for its end, or end it, and try again.")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._may_start.wait(), _CHECK_INTERVAL_SECONDS)

    def _others_run(self, profile: "Profile") -> bool:
        """Return True if commands of another session run that could write in the same directories."""
        from sagent.sandbox.profile import is_below
        from sagent.sandbox.scratch import before_for_others

        return any(is_below(path, profile.writable) for path in before_for_others(self._copies.parent, set()))

    async def _make_wall(self, profile: "Profile", needs: "Iterable[Need]", mark: int) -> "Wall":
        from sagent.sandbox.landlock import Wall, make_wall
        from sagent.sandbox.tasks import MAX_THREADS, Watchdog, count_tasks

        network, own = any(need.kind == "network" for need in needs), self._own_temporary()

        def made() -> bytes:
            most = count_tasks(uid=os.getuid()) + MAX_THREADS
            return make_wall(profile, network=network, scratch=own, memory=self._memory, processes=most, mark=mark)

        try:
            self._watchdog = self._watchdog or Watchdog(*self._own_scratch().marks)
            return Wall(await asyncio.to_thread(made))  # walks directories of any size
        except (OSError, ValueError) as error:
            raise ToolError(f"The command was not run: its sandbox could not be made: {failure(error)}") from error

    def _warn_of_size(self, profile: "Profile") -> None:
        for place in sorted({*profile.partly_known} - self._reported):
            self._reported.add(place)
            self.warn(
                f"{place} has more directories than the sandbox searches: `.env` files and repositories in the others"
                " are neither hidden from commands nor protected. Start in a smaller directory, or name them in deny"
                " rules."
            )

    def sweep(self) -> None:
        """Begin to remove temporary files that killed processes left, once."""
        if self._sweeping is None:
            self._sweeping = asyncio.create_task(self._sweep())

    async def _sweep(self) -> None:
        """Remove what killed processes left, and report what could not be undone any more."""
        from sagent.sandbox.guard import changed
        from sagent.sandbox.scratch import sweep

        found = await asyncio.to_thread(sweep, changed)
        if self._cache is not None:
            found += await asyncio.to_thread(sweep, changed, self._cache / _REGISTER)
        if found:
            self.warn(
                f"{', '.join(dict.fromkeys(found))} was changed while a command ran whose session was then killed: "
                "check its content, because such files are run automatically"
            )

    async def _reach(self, domains: tuple[str, ...], view: "View | None", *, once: bool) -> Access:
        """Return a command's access to hosts. Raises ToolError."""
        if domains and self._network is None and (made := extra_of_ours(NETWORK)):
            self._network = cast("Callable[[Path], Network]", made)(self.scratch / "proxy")
        if domains and self._network is not None:
            return await self._network.admit(domains, view, once=once)
        if once:
            raise ToolError(f"The command was not run: it asks for hosts, and {_NO_NETWORK}.")
        if domains and _NO_NETWORK not in self._reported:
            self._reported.add(_NO_NETWORK)
            self.warn(f"Commands reach none of the allowed hosts: {_NO_NETWORK}.")
        return Access()

    def _watch(
        self,
        protected: Iterable[str],
        held: frozenset[str] = frozenset(),
        granted: Collection[str] = (),
        roots: Sequence[str] = (),
    ) -> "Watch":
        """Watch protected paths for one command, and repositories below `roots`, until `_finish`."""
        if self._guard is None:
            from sagent.sandbox.guard import Guard
            from sagent.sandbox.plants import Plants

            self._guard, self._plants = Guard(self._quarantine, self._copies), Plants(self._quarantine, _caches())
        protected = tuple(protected)
        plants = self._plants if protected else None
        kept = self._kept._replace(granted={*self._kept.granted, *granted})
        if plants is not None and (planted := plants.begin(roots, kept, protected)):
            self.warn(self._disarmed(planted))
        for other in self._running if protected else ():  # from now on, changes may be this command's
            if other.outside:
                self._guard.withdraw(other)
        watch = self._guard.begin(protected, held, granted)
        self._running.add(watch)
        if watch.paths and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._look(self._guard))
        return watch

    @contextlib.contextmanager
    def changing(self, path: Path) -> Generator[None]:
        """Let a tool of ours change a file that the policy has allowed, so that the change is not undone."""
        with contextlib.nullcontext() if self._guard is None else self._guard.changing(str(path)):
            yield
        if self._plants is not None:
            self._plants.allow(str(path))

    @property
    def _kept(self) -> "ProtectedPaths":
        from sagent.sandbox.plants import ProtectedPaths

        granted = (path for watch in (*self._running, *self._outlived.values()) for path in watch.granted)
        return ProtectedPaths(self._guard.kept if self._guard is not None else frozenset(), frozenset(granted))

    def _disarmed(self, planted: Sequence[str]) -> str:
        where = f"in {self._quarantine}, or near the file with `.undone` in its name"
        return (
            f"removed {_listing([*dict.fromkeys(planted)])}, which a command wrote and other programs would obey."
            f" The removed files are {where}. {_AGAIN}"
        )

    async def _look(self, guard: "Guard") -> None:
        """Restore protected paths while anything runs inside: the person's editor or shell might run a plant."""
        plants = self._plants
        while (runs := any(each.paths for each in self._running)) or self._outlived or (plants and not plants.is_done):
            if plants is not None and not plants.is_done and not runs and not self._outlived:
                await asyncio.sleep(_BREATH_SECONDS)
                if planted := plants.go_on(self._kept):
                    self.warn(self._disarmed(planted))
                continue
            await asyncio.sleep(_CHECK_INTERVAL_SECONDS)
            lives = runs or self._lives()
            with contextlib.suppress(OSError):
                if changed := guard.put_back():
                    self.warn(self._undone(changed))
                if self._plants is not None and (planted := self._plants.look(self._kept)):
                    self.warn(self._disarmed(planted))
                self._warn_of_loose(guard)
            if not lives:
                if self._plants is not None and (planted := self._plants.end(self._kept, goes_on=False)):
                    self.warn(self._disarmed(planted))
                for watch in self._outlived.values():
                    guard.leave(watch)
                self._outlived.clear()

    def _lives(self) -> bool:
        """Return True if a process runs inside."""
        if self._boxes is not None:
            return self._boxes.at_work
        if self.means.name != "landlock" or self._scratch is None:
            return False
        from sagent.sandbox.tasks import marked

        return bool(marked(self._scratch.marks[0]))

    def _finish(
        self,
        watch: "Watch",
        end: Callable[[], Sequence[str]] = tuple,
        view: "View | None" = None,
        wall: "Wall | None" = None,
    ) -> Sequence[str]:
        """Return sentences about a command that has ended; none the second time."""
        if wall is not None:
            wall.close()
        if watch not in self._running:
            return ()
        kept = self._kept
        self._running.remove(watch)
        self._obeying.pop(watch, None)
        if not self._obeying:
            self._may_start.set()
        said: list[str] = []
        if view is not None and not view.box.stands:
            said.append("its sandbox was killed, and everything that ran in it: the next command gets a new one")
        if self._guard is not None and (changed := self._ended(self._guard, watch)):
            said.append(self._undone(changed))
        goes_on = any(each.paths for each in self._running) or bool(self._outlived)
        if watch.paths and self._plants is not None and (planted := self._plants.end(kept, goes_on=goes_on)):
            said.append(self._disarmed(planted))
        said += end()
        return said

    def _undone(self, changed: Sequence[str]) -> str:
        return (
            f"the sandbox undid the changes to {', '.join(changed)}, because such files run automatically; the "
            f"changed versions are in {self._quarantine}, or next to the file with `.undone` in the name. {_AGAIN}"
        )

    def _ended(self, guard: "Guard", watch: "Watch") -> Sequence[str]:
        outlived = watch.paths not in self._outlived and self._lives()
        if outlived:
            self._outlived[watch.paths] = watch
        notices = guard.end(watch, outlived=outlived)
        self._warn_of_loose(guard)
        return notices

    def _warn_of_loose(self, guard: "Guard") -> None:
        if loose := guard.take_replaced():
            self.warn(
                f"{', '.join(loose)} was replaced while a command ran, which could write the new one for a second: "
                "check its content, because such files run automatically"
            )

    async def _leave_plants(self, plants: "Plants", protected: "ProtectedPaths") -> None:
        planted = plants.end(protected, goes_on=False)
        if not plants.is_done:
            planted += await asyncio.to_thread(plants.go_on, protected, _LAST_SECONDS)
        if planted:
            self.warn(self._disarmed(planted))
        for root in plants.partly_known:
            self.warn(
                f"{root} has more directories than could be searched for repositories that commands made: check new"
                " files there before you run git in it"
            )

    async def aclose(self) -> None:
        """End what still runs inside, except detached commands, and remove the temporary files of commands."""
        if self._network is not None:
            await self._network.aclose()
            self._network = None
        if self._boxes is not None:
            await self._boxes.aclose()
            self._boxes = None
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        if self._watchdog is not None and not self._stays:  # before the last check of its changes
            from sagent.sandbox.tasks import end

            await asyncio.to_thread(end, *self._own_scratch().marks)
        if self._guard is not None:
            kept = self._kept
            with contextlib.suppress(OSError):
                self._guard.close()
            if self._plants is not None:
                await self._leave_plants(self._plants, kept)
            self._guard = self._plants = None
        self._running.clear()
        self._obeying.clear()
        self._may_start.set()
        self._outlived.clear()
        if self._sweeping is not None:
            await asyncio.wait([self._sweeping])
            self._sweeping = None
        if (register := self._register) is not None:
            self._register = None
            await asyncio.to_thread(register.remove)
        if (scratch := self._scratch) is not None:
            self._scratch = None
            if self._watchdog is not None:
                self._watchdog.dismiss()
                self._watchdog = None
            await asyncio.to_thread(scratch.close if self._stays else scratch.remove)

    def _detach(self) -> None:
        self._stays = True
        if self._boxes is not None:
            self._boxes.detach()
        elif self._scratch is not None:
            self._scratch.stay()
            if self._watchdog is not None:
                self._watchdog.dismiss()

    def _open_boxes(self) -> "Boxes":
        if self._boxes is None:
            from sagent.sandbox.bubblewrap import Boxes

            self._boxes = Boxes(self._own_scratch())
        return self._boxes

    @property
    def scratch(self) -> Path:
        """A directory of the session itself, removed when it ends."""
        return self._own_scratch().path

    @property
    def _quarantine(self) -> Path:
        from sagent.sandbox.scratch import ASIDE

        return self.scratch / ASIDE

    @property
    def _copies(self) -> Path:
        """The directory for copies of files as they were before commands, shared with other sessions. It is not among
        temporary files, because a workspace may contain those, and a command could forge a session there."""
        from sagent.sandbox.scratch import ASIDE, Scratch

        if self._register is None and self._cache is not None:
            place = self._cache / _REGISTER
            with contextlib.suppress(OSError):
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._register = Scratch(place)
        return self._quarantine if self._register is None else self._register.path / ASIDE

    def _own_scratch(self) -> "Scratch":
        if self._scratch is None:
            from sagent.sandbox.scratch import Scratch

            self._scratch = Scratch()
        return self._scratch

    def _own_temporary(self) -> Path:
        """Return a directory for commands' temporary files, without any of ours, if other processes share /tmp."""
        place = self.scratch / "tmp"
        place.mkdir(mode=0o700, exist_ok=True)
        return place

    def _environment(self) -> dict[str, str]:
        """Return the variables for temporary files and caches."""
        own = "/tmp" if self.means.name == "bubblewrap" else str(self._own_temporary())  # noqa: S108 -- it has its own there
        known = os.path.isdir(Path("~/.cache").expanduser())  # noqa: PTH112 -- no error where home may not be entered
        cache = {} if known else {"XDG_CACHE_HOME": f"{own}/cache"}
        return {"TMPDIR": own, **cache}
