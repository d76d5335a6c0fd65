"""The sandbox of a session: what holds commands here, and how one is run within a profile."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, assert_never, get_args

from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass

if TYPE_CHECKING:
    from sagent.sandbox.bubblewrap import Boxes
    from sagent.sandbox.guard import Guard
    from sagent.sandbox.probe import Means
    from sagent.sandbox.profile import Need, Profile

SandboxMode: TypeAlias = Literal["required", "auto", "off"]
SANDBOX_MODES: tuple[SandboxMode, ...] = get_args(SandboxMode)  # from the strictest to the freest


@dataclass(frozen=True, slots=True)
class Confined:
    """A command line that runs another within a profile, and what its environment gets in addition. Without a profile
    it runs as it is.

    `let_go` is called before the command may outlive us, and `finish` when it has ended, which returns sentences for
    the model: what of its work was taken back.
    """

    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    profile: "Profile | None" = None
    let_go: Callable[[], None] = lambda: None
    finish: Callable[[], Sequence[str]] = tuple


class Sandbox:
    """Runs commands within profiles. One serves all agents of a session; `close` ends what still runs in it.

    `wanted`: "auto" takes what there is, "required" raises UsageError where there is nothing, "off" is nothing. What
    was found to work is kept in the directory `cache`. `memory` bounds the data of each process, in bytes; by default
    it is four fifths of what the machine has.
    """

    def __init__(self, wanted: SandboxMode = "auto", *, cache: Path | None = None, memory: int | None = None) -> None:
        self.wanted: SandboxMode = wanted
        self._cache = cache
        self._memory = memory or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 4 // 5
        self._means: Means | None = None
        self._scratch: Path | None = None
        self._boxes: Boxes | None = None
        self._stays = False
        if wanted == "required" and not self.stands:
            raise UsageError(
                f"--sandbox required: there is none here, for {self.means.why}. With --sandbox auto commands are asked "
                "about instead."
            )

    @property
    def means(self) -> "Means":
        """What holds commands here. Tried when it is first asked for, which takes some 30 ms."""
        if self._means is None:
            from sagent.sandbox.probe import Means, probe

            self._means = Means("none", "it is switched off") if self.wanted == "off" else probe(self._cache)
        return self._means

    @property
    def stands(self) -> bool:
        """Whether commands are held at all."""
        return self.means.name != "none"

    def holds(self, profile: "Profile") -> bool:
        """Whether all of a profile is held."""
        return self.stands

    @property
    def temporary(self) -> Mapping[str, Path]:
        """Directories of which commands see another one, and which that is. Empty before the first command."""
        return self._boxes.private if self._boxes else {}

    async def confine(
        self, argv: Sequence[str], profile: "Profile", cwd: Path, needs: "Iterable[Need]" = ()
    ) -> Confined:
        """How a command line is run within a profile, widened by what was granted for it. Raises ToolError."""
        from sagent.sandbox.guard import Guard

        needs = tuple(needs)
        if any(need.kind == "all" for need in needs):
            return Confined(argv)
        profile = profile.widened(needs)
        aside = self.scratch / "taken-back"
        guard = Guard(profile.protected, aside)
        environment = self._environment()
        match self.means.name:
            case "none":
                return Confined(argv)
            case "bubblewrap":
                box = await self._open_boxes().box(profile)
                argv = box.entering(argv, str(cwd), memory=self._memory)
            case "seatbelt":
                from sagent.sandbox.seatbelt import wrap

                argv = wrap(argv, profile, str(self.scratch))
            case _:
                assert_never(self.means.name)
        return Confined(argv, environment, profile, self._let_go, partial(_taken_back, guard, aside))

    def close(self) -> None:
        """End what still runs inside, but for what was let go, and remove what commands had for temporary files."""
        if self._boxes is not None:
            self._boxes.close()
            self._boxes = None
        if self._scratch is not None and not self._stays:
            import shutil

            shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch = None

    def _let_go(self) -> None:
        self._stays = True
        if self._boxes is not None:
            self._boxes.let_go()

    def _open_boxes(self) -> "Boxes":
        if self._boxes is None:
            from sagent.sandbox.bubblewrap import Boxes

            self._boxes = Boxes(self.scratch)
        return self._boxes

    @property
    def scratch(self) -> Path:
        """A directory of the session's own, which is removed with it."""
        if self._scratch is None:
            import tempfile

            self._scratch = Path(os.path.realpath(tempfile.mkdtemp(prefix="sagent-tmp-")))
        return self._scratch

    def _environment(self) -> dict[str, str]:
        """Where temporary files and caches go."""
        own = "/tmp" if self.means.name == "bubblewrap" else str(self.scratch)  # noqa: S108 -- it has its own there
        cache = {} if Path("~/.cache").expanduser().is_dir() else {"XDG_CACHE_HOME": f"{own}/cache"}
        return {"TMPDIR": own, **cache}


def _taken_back(guard: "Guard", aside: Path) -> Sequence[str]:
    if not (made := guard.take_back()):
        return ()
    return (f"The sandbox took back {', '.join(made)}: such a file may run by itself. It is in {aside}.",)
