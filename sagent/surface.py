"""The surface of a session: where its person is, and additions of the agent's parts for them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from sagent.lib.dataclass import dataclass

if TYPE_CHECKING:
    from sagent.tool import Media

Where: TypeAlias = Literal["", "terminal", "editor", "node"]
"""Where the person is, if attached to a node from elsewhere; "" if nobody is, or unknown."""


@dataclass(frozen=True, slots=True)
class BroughtServer:
    """An MCP server that an editor brings for a session: a command to run, or a URL."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt that becomes a slash command. `fill` returns its text, given the text typed after the command; it raises
    UsageError."""

    name: str
    about: str
    fill: Callable[[str], Awaitable[str]]


class Source(Protocol):
    """Source of prompts and of resources, which a person mentions as "@name"."""

    async def offered(self) -> Sequence[Prompt]:
        """Return the present prompts."""
        ...

    async def resources(self) -> Sequence[str]:
        """Return the names of the resources that can be mentioned."""
        ...

    def has(self, mention: str) -> bool:
        """Return True if a mention names a resource of this source."""
        ...

    async def read(self, mention: str) -> "Sequence[Media]":
        """Return the content of a resource. Raises UsageError."""
        ...

    def follow(self, changed: Callable[[], object]) -> None:
        """Call a function whenever the prompts change."""
        ...


@dataclass(slots=True)
class Surface:
    """Given to the agent being built, and read by whoever shows its session.

    `brought` are servers by name: a part that can reach them offers their tools. `selections` return the text that the
    person has selected in another program since the last call, "" for nothing. `sources` have prompts and resources.
    `asks_first`: a prompt may be refused before it is read, so each begins a turn. `first` are commands to begin with.
    """

    where: Where = ""
    brought: Mapping[str, BroughtServer] = field(default_factory=dict[str, BroughtServer])
    selections: list[Callable[[], str]] = field(default_factory=list[Callable[[], str]])
    sources: list[Source] = field(default_factory=list[Source])
    asks_first: bool = False
    first: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    shared: dict[object, object] = field(default_factory=dict[object, object], repr=False)
    """What parts and slash commands of a plugin have in common, by any key of theirs."""

    def selected(self) -> str:
        """Return the text selected elsewhere, for the model to read with the next prompt; "" for nothing."""
        return "\n\n".join(filter(None, (selection() for selection in self.selections)))

    async def prompts(self) -> Sequence[Prompt]:
        """Return the prompts of all sources."""
        found = await asyncio.gather(*(source.offered() for source in self.sources))
        return [prompt for prompts in found for prompt in prompts]

    async def resources(self) -> Sequence[str]:
        """Return the names of the resources of all sources."""
        found = await asyncio.gather(*(source.resources() for source in self.sources))
        return [name for names in found for name in names]

    def has(self, mention: str) -> bool:
        """Return True if a source has the mentioned resource."""
        return any(source.has(mention) for source in self.sources)

    async def read(self, mention: str) -> "Sequence[Media]":
        """Return the content of a resource that a source has. Raises UsageError."""
        return await next(source for source in self.sources if source.has(mention)).read(mention)

    def follow(self, changed: Callable[[], object]) -> None:
        """Call a function whenever prompts change."""
        for source in self.sources:
            source.follow(changed)
