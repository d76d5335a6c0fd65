"""Finds out what can confine commands on this machine."""

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from sagent.lib.atomic import put
from sagent.lib.regular import read_given

_FILE = "sandbox.json"
Name: TypeAlias = Literal["bubblewrap", "landlock", "seatbelt", "none"]


class Confinement(NamedTuple):
    """The means that confine commands, and why there is none better; "" if it is the best."""

    name: Name
    why: str = ""


def probe(cache: Path | None) -> Confinement:
    """Find the means that work here, by trying them. The answer is cached in the directory `cache` until something
    that it depends on changes; an answer that may be due to a busy moment is not cached."""
    if cache is not None:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            kept = json.loads(read_given(cache / _FILE))
            if kept["key"] == list(_dependencies()):
                return Confinement(kept["name"], kept["why"])
    found = _try_all()
    if cache is not None and (not found.why or "not installed" in found.why):
        with contextlib.suppress(OSError):
            keep(cache, found)
    return found


def keep(cache: Path, means: Confinement) -> None:
    """Have this found from now on. Raises OSError."""
    put(cache / _FILE, json.dumps({"key": list(_dependencies()), "name": means.name, "why": means.why}).encode())


def forget(cache: Path | None) -> None:
    """Forget the cached means, because they no longer work."""
    if cache is not None:
        with contextlib.suppress(OSError):
            (cache / _FILE).unlink()


def _dependencies() -> Iterator[str]:
    yield from (os.uname().release, str(os.geteuid()), os.environ.get("PATH", ""))
    for program in ("bwrap", "nsenter", "unshare"):
        with contextlib.suppress(OSError):
            found = Path(shutil.which(program) or "").stat()
            yield f"{program} {found.st_ino} {found.st_mtime_ns}"
    with contextlib.suppress(OSError):
        lines = Path("/proc/self/status").read_text(errors="replace").splitlines()
        yield "".join(line for line in lines if line.startswith(("CapBnd", "Seccomp", "NoNewPrivs")))
    for file in ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "/proc/self/attr/current"):
        with contextlib.suppress(OSError):
            yield Path(file).read_text(errors="replace")


def _try_all() -> Confinement:
    if sys.platform == "darwin":
        from sagent.sandbox.seatbelt import PROGRAM

        return Confinement("seatbelt") if Path(PROGRAM).exists() else Confinement("none", f"{PROGRAM} is missing")
    if sys.platform != "linux":
        return Confinement("none", f"there is none for {sys.platform}")
    from sagent.sandbox.bubblewrap import refusal

    if not (why := refusal()):
        return Confinement("bubblewrap")
    from sagent.sandbox.landlock import available

    why_not = available()
    return Confinement("none", f"{why}; {why_not}") if why_not else Confinement("landlock", why)
