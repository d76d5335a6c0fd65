"""Programs: the tables of programs.toml, and names for the same program."""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache

from sagent.lib.toml import toml_beside

_VERSION = re.compile(r"(.*[a-z_+\]])[-.]?([0-9][0-9.]*)(?:-[0-9.]+)?(?:\.exe)?", re.DOTALL)


@cache
def table(name: str) -> Mapping[str, tuple[str, ...]]:
    """Return a table of programs.toml, which explains each."""
    data: Mapping[str, Mapping[str, list[str]]] = toml_beside(__file__, "programs.toml")
    return {key: tuple(value) for key, value in data[name].items()}


def listed(name: str) -> frozenset[str]:
    """Return a list of programs.toml."""
    return frozenset(table("lists")[name])


@cache
def _firsts() -> Mapping[str, str]:
    """Return the first program of the family, by program."""
    return {name: family.split()[0] for family in listed("families") for name in family.split()}


def usual_name(name: str) -> str:
    """Return the name of a program without the letter that GNU's have on some systems."""
    return name[1:] if name[:1] == "g" and name[1:] in listed("gnu") else name


def names_program(program: str, name: str) -> bool:
    """Return True if a deny rule for one program covers another, by a wildcard, a version or a family of programs."""
    program, name = program.rpartition("/")[2].lower() or program, name.lower()
    if fnmatchcase(name, program):
        return True
    (bare, version), (other, another) = _parts(program), _parts(name)
    fits = fnmatchcase(other, bare) or _firsts().get(other, other) == _firsts().get(bare, bare)
    return fits and (not version or not another or another.startswith(version))


def spellings(program: str) -> str:
    """Return a regular expression for all names in a text that a deny rule's program may have."""
    bare, version = _parts(program.rpartition("/")[2].lower() or program)
    family = [name for name, first in _firsts().items() if first == _firsts().get(bare, "")]
    names = "|".join(re.escape(name).replace(r"\*", r"[^\s/]*").replace(r"\?", r"[^\s/]") for name in (bare, *family))
    return rf"(?i:g?(?:{names})(?:[-.]?{re.escape(version)}[0-9.]*)?(?:\.exe)?)"


def _parts(name: str) -> tuple[str, str]:
    """Split a name into the usual name and a version."""
    match = _VERSION.fullmatch(name)
    return (usual_name(match[1]), match[2]) if match else (usual_name(name.removesuffix(".exe")), "")
