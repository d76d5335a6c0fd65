"""Hooks: an event, a matcher, and a command or URL to ask."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Literal, TypeAlias

from sagent.lib.dataclass import dataclass
from sagent.policy.readings import names_tool

if TYPE_CHECKING:
    from sagent.sandbox.profile import Need

Source: TypeAlias = Literal["person", "project", "plugin"]
DEFAULT_SECONDS, MAX_SECONDS = 60.0, 600.0
_ALIASES: Mapping[str, tuple[str, ...]] = {"AgentSpawn": ("Task", "Agent"), "List": ("LS",)}
"""Names of tools in matchers written for other programs."""

_ARGUMENTS = re.compile(r"\b([A-Z][A-Za-z]*)\([^()]*[^()\w|][^()]*\)")  # `Bash(rm:*)`
_LIST = re.compile(r"[\w|,; \n\t(){}'\"`\u201c\u201d@/-]+")


@dataclass(frozen=True, slots=True)
class Hook:
    """One hook. `matcher` is a name, names with "|" in between, or a regular expression; "" is everything.

    `timeout` is in seconds. `needs` are its command's permissions beyond the sandbox. A hook of a project or a plugin
    can refuse, ask and add, but never allow. `place` is its file, `root` its plugin's directory.
    """

    event: str
    command: str = ""
    url: str = ""
    matcher: str = ""
    timeout: float = DEFAULT_SECONDS
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    needs: "tuple[Need, ...]" = ()
    source: Source = "person"
    place: str = ""
    root: str = ""

    @property
    def what(self) -> str:
        """The command or the URL."""
        return _plain(self.command or self.url)

    def __str__(self) -> str:
        about = f" {_plain(self.matcher)}" if self.matcher else ""
        more = [f"{self.timeout:g} s"] if self.timeout != DEFAULT_SECONDS else []
        more += [f"needs {need}" for need in self.needs]
        more += [f"header {_plain(name)}" for name in self.headers]
        return f"{self.event}{about}: {self.what}" + (f" ({', '.join(more)})" if more else "")

    @property
    def wanted(self) -> str:
        """The full text that the person is asked to trust."""
        return " ".join((str(self), *(_plain(f"{name}: {value}") for name, value in self.headers.items())))

    def is_about(self, names: Iterable[str]) -> bool:
        """Return True if the matcher, a regular expression or plain names, matches one of the names."""
        if self.matcher in ("", "*"):
            return True
        names, plain = tuple(names), re.fullmatch(r"[\w|, -]+", self.matcher)
        wanted = [each for part in re.split(r"[|,]", self.matcher) if (each := part.strip())]
        bare = _ARGUMENTS.sub(r"\1", self.matcher)
        if _LIST.fullmatch(bare):  # in another program's form: its guard stays effective
            wanted += re.findall(r"[\w-]+", bare)
        if any(names_tool(each, name) for each in wanted if plain or "*" not in each for name in names):
            return True
        return not plain and any(re.search(self.matcher, name) for name in names)


def _plain(text: str) -> str:
    """Return a text; as JSON if it contains look-alike or invisible characters."""
    return text if text.isascii() and text.isprintable() else json.dumps(text)


def names_of(tool: str) -> tuple[str, ...]:
    """Return a tool's name and its aliases."""
    return (tool, *_ALIASES.get(tool, ()))
