"""What a command may touch, and what more one may ask for, as values."""

import re
from typing import Literal, TypeAlias

from sagent.lib.dataclass import dataclass

Kind: TypeAlias = Literal["network", "write", "read", "all"]

_HOST = r"((\*\.)?[\w-]+(\.[\w-]+)*|\[[0-9a-fA-F:.]+\])(:\d{1,5})?"


@dataclass(frozen=True, slots=True)
class Profile:
    """What commands may touch. Paths are absolute and free of symlinks; a directory stands for all that is below it.

    Everything may be read but `hidden`. Nothing may be written but `writable`, and in there not what is `protected`,
    which need not exist. `exposed` paths may be read although they lie below a hidden one. `domains` are the hosts that
    may be reached: "example.org", "*.example.org", each with an optional ":PORT"; without one 80 and 443.
    """

    writable: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    exposed: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Need:
    """What a command needs beyond its profile: a host to reach, a path to write or to read, or no sandbox ("all").

    `target` is the host or the absolute path; "" for "all".
    """

    kind: Kind
    target: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.target}" if self.target else self.kind

    @classmethod
    def parse(cls, text: str) -> "Need":
        """Read "network:HOST[:PORT]", "write:PATH", "read:PATH" or "all". Raises ValueError that says what is read."""
        kind, _, target = text.strip().partition(":")
        if kind == "all" and not target:
            return cls("all")
        if kind == "network" and re.fullmatch(_HOST, target):
            return cls("network", target.lower())
        if kind in ("write", "read") and target.startswith(("/", "~", ".")) and "\0" not in target:
            return cls(kind, target)
        raise ValueError(f'{text!r} is not a need: write "network:HOST", "write:PATH", "read:PATH" or "all"')
