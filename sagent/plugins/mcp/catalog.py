"""The catalog of MCP servers for a person: prompts as commands, and resources as mentions."""

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from sagent.errors import UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.pace import offload
from sagent.lib.text import one_line, printable
from sagent.messages import Text
from sagent.plugins.mcp.link import Link, failure
from sagent.plugins.mcp.output import is_small, parts_of, resource_part
from sagent.plugins.mcp.tool import plain
from sagent.tool import Media

if TYPE_CHECKING:
    from mcp.types import Prompt as McpPrompt

MAX_PAGES = 100  # of one list
MAX_LISTED = 1_000  # of one server
MAX_TEXT_CHARS = 400_000  # to insert into a message


class _Page(Protocol):
    @property
    def next_cursor(self) -> str | None: ...


Page = TypeVar("Page", bound=_Page)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt of a server. `arguments` are its parameters in order, each with True if required."""

    server: str
    own: str
    about: str
    arguments: tuple[tuple[str, bool], ...]

    @property
    def name(self) -> str:
        """The command that runs it."""
        return f"mcp__{plain(self.server)}__{plain(self.own)}".lower()

    @property
    def shown(self) -> str:
        """Describe the prompt to a person: its purpose, and its arguments."""
        return f"{self.about} ({printable(self.usage)})" if self.arguments else self.about

    @property
    def usage(self) -> str:
        """The prompt's arguments as a person types them."""
        return " ".join(f"<{name}>" if required else f"[{name}]" for name, required in self.arguments)

    def read(self, typed: str) -> Mapping[str, str]:
        """Parse the typed arguments by position; the last one takes the rest. Raises UsageError."""
        try:
            words = shlex.split(typed)
        except ValueError:
            words = typed.split()
        names = [name for name, _ in self.arguments]
        if len(words) > len(names) > 0:
            words[len(names) - 1 :] = [" ".join(words[len(names) - 1 :])]
        found = dict(zip(names, words, strict=False))
        lacking = [name for name, required in self.arguments if required and name not in found]
        if lacking or len(words) > len(names):
            why = f"needs {printable(lacking[0])}" if lacking else "takes no arguments"
            raise UsageError(f"/{self.name} {why}: /{self.name} {printable(self.usage)}".rstrip())
        return found


async def every_page(read: Callable[[str | None], Awaitable[Page]]) -> list[Page]:
    """Return the pages of a list, a limited number in case it never ends."""
    pages = [await read(None)]
    while (cursor := pages[-1].next_cursor) is not None and len(pages) < MAX_PAGES:
        pages.append(await read(cursor))
    return pages


async def list_prompts(link: Link) -> Sequence[Prompt]:
    """Return the prompts of a server. Raises the connection's errors."""
    client = await link.client()
    if client.server_capabilities.prompts is None:
        return ()
    pages = await every_page(lambda cursor: client.list_prompts(cursor=cursor, cache_mode="refresh"))
    return [_prompt(link.name, prompt) for page in pages for prompt in page.prompts][:MAX_LISTED]


def _prompt(server: str, prompt: "McpPrompt") -> Prompt:
    about = one_line(printable(prompt.description or prompt.title or prompt.name), 300)
    return Prompt(server, prompt.name, about, tuple((one.name, bool(one.required)) for one in prompt.arguments or ()))


async def fill_prompt(link: Link, prompt: Prompt, typed: str) -> str:
    """Return the text of a prompt with its arguments filled in by its server. Raises UsageError."""
    given = {**prompt.read(typed)}
    try:
        got = await (await link.client()).get_prompt(prompt.own, given)
    except Exception as error:
        raise UsageError(f"/{prompt.name}: the MCP server {link.name} answered: {failure(error)}") from error
    blocks = [message.content for message in got.messages]
    shown = await offload(lambda _: [*map(parts_of, blocks)], small=is_small(blocks))
    parts = [(message.role, part) for message, held in zip(got.messages, shown, strict=True) for part in held]
    texts = [part.text if role == "user" else f"{role}: {part.text}" for role, part in parts if isinstance(part, Text)]
    if len(texts) < len(parts):
        texts.append(f"({len(parts) - len(texts)} images or documents of this prompt were left out.)")
    return printable("\n\n".join(texts))[:MAX_TEXT_CHARS]


async def list_resources(link: Link) -> Sequence[str]:
    """Return the addresses of a server's resources that can be typed. Raises the connection's errors."""
    client = await link.client()
    if client.server_capabilities.resources is None:
        return ()
    pages = await every_page(lambda cursor: client.list_resources(cursor=cursor, cache_mode="refresh"))
    found = [str(resource.uri) for page in pages for resource in page.resources]
    return [uri for uri in found if uri.isprintable() and not {*uri} & {*' "@'}][:MAX_LISTED]


async def read_resource(link: Link, uri: str) -> Sequence[Media]:
    """Read a resource for a model. Raises UsageError."""
    try:
        got = await (await link.client()).read_resource(uri)
    except Exception as error:
        raise UsageError(f"@{link.name}:{uri} could not be read: {failure(error)}") from error
    return await offload(lambda _: [resource_part(held, MAX_TEXT_CHARS) for held in got.contents])
