"""What a setting is: one declaration, from which its flag, variable, key in a file, type and uses follow."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from sagent.config.values import Choice, Reader

Project: TypeAlias = Literal["no", "yes", "lower", "ask"]
"""What a project's file may do: nothing, anything, only make it stricter, or with the person's trust anything."""
Scope: TypeAlias = Literal["agent", "place", "session", "surface"]
"""What a setting is about: how an agent works, where it does, which session it continues, or one program's own."""
Use: TypeAlias = Literal["remote", "shared", "asked_again", "acting"]
"""Who passes a setting on: "remote", whoever starts a session on another machine may choose it; "shared", all runs of a
comparison have it alike; "asked_again", it may be chosen for prompts that are given to another model; "acting", it says
what an agent may do or is told to be, which a surface that only reads decides itself."""


class Setting(NamedTuple):
    """One setting. `help` describes its flag; a setting without it has none.

    `type` is its type in Settings and `given` what a program may give, both as type checkers read them. `adds` joins
    the values of layers. `metavar` is the flag's value in help, "" where it takes none; `each` lets it be repeated, and
    `flag` is its name where that differs. `key` is its place in a file where that is in a table.
    The name of one in a table has the table's before it: "advisor_rules.max_usd" is SAGENT_ADVISOR_MAX_USD.
    """

    name: str
    read: Reader
    default: object = None
    type: str = "str | None"
    given: str = ""
    project: Project = "no"
    adds: bool = False
    group: str = "work"
    flag: str = ""
    short: str = ""
    metavar: str = ""
    help: str = ""
    each: bool = False
    scope: Scope = "agent"
    uses: tuple[Use, ...] = ()
    swept: bool = True
    key: str = ""

    @property
    def member(self) -> str:
        """The name without that of its table."""
        return self.name.rpartition(".")[2]

    @property
    def variable(self) -> str:
        """The environment variable."""
        if self.name == self.member:
            return "SAGENT_" + self.name.upper()
        return "SAGENT_ADVISOR_" + self.member.upper().replace("ADVISOR_", "")

    @property
    def flag_name(self) -> str:
        """The flag without its dashes."""
        return self.flag or self.name.replace("_", "-")

    @property
    def keyword(self) -> str:
        """The flag as a program gives it. A flag that turns something off has none: the setting's name does it."""
        return self.name if self.flag.startswith("no-") else self.flag_name.replace("-", "_")

    @property
    def is_swept(self) -> bool:
        """Whether a sweep may vary it."""
        return self.swept and self.scope in ("agent", "place")

    @property
    def order(self) -> Sequence[object]:
        """The words that are accepted, the strictest first; none where it takes other values."""
        return self.read.words() if isinstance(self.read, Choice) else ()
