"""A report on the sandbox for a person: what confines commands, what is missing, and what to do about it."""

import os
from collections.abc import Sequence
from pathlib import Path

from sagent.lib.text import count
from sagent.sandbox import Sandbox
from sagent.sandbox.places import known_places, really_below
from sagent.sandbox.probe import Confinement
from sagent.sandbox.profile import Profile


def held_by(sandbox: Sandbox) -> str:
    """Name the means that confines commands, "none", or "off". Tries the means if it is unknown."""
    return "off" if sandbox.wanted == "off" else sandbox.means.name


def shortfall(sandbox: Sandbox) -> str:
    """Return the warning if a sandbox is wanted but missing, or not the installed one; else ""."""
    if sandbox.wanted == "off":
        return ""
    means = sandbox.means
    if means.name == "landlock" and "not installed" not in means.why:
        return f"bubblewrap cannot be used, because {means.why}. Landlock is used, which confines less (sagent doctor)."
    if sandbox.stands:
        return ""
    return f"Commands run without a sandbox, because {means.why}: you are asked about them. {advice(means)}".rstrip()


def advice(means: Confinement) -> str:
    """Explain how to get the best sandbox; "" if nothing is known."""
    if "not installed" not in means.why:
        return ""
    if "bwrap" in means.why:
        return "Install bubblewrap (apt install bubblewrap, or the equivalent of this system)."
    return "Install util-linux, which provides it."


def described(profile: Profile, *, whole: bool = False) -> Sequence[tuple[str, str]]:
    """Describe what commands in a sandbox may reach and write; hidden places are counted, or named in the `whole`."""
    home = os.path.realpath(Path("~").expanduser())
    caches = really_below(home, known_places().caches)
    written = [path for path in profile.writable if path not in caches]
    there = sum(map(os.path.exists, caches.intersection(profile.writable)))
    places = [*written, *([count(there, "cache")] if there else []), "temporary files"]
    hidden = [path for path in profile.hidden if os.path.exists(path)]  # noqa: PTH110 -- of some hundred
    hidden_places = ", ".join(hidden) if whole and hidden else f"{count(len(hidden), 'place')} that may hold keys"
    return (
        ("hosts", ", ".join(profile.domains) or "none"),
        ("writable", ", ".join(places)),
        ("not readable", hidden_places),
    )
