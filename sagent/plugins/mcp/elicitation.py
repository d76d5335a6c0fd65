"""Questions of MCP servers to a person: a form, one question for each field, or a page to open in a browser.

One question is open at a time, and each names its server. Without a person all are declined.
https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
"""

import asyncio
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias, cast
from urllib.parse import urlsplit

from sagent.lib.dataclass import dataclass
from sagent.lib.text import one_line, printable, spelled
from sagent.plugins.mcp.form import Field, read_fields
from sagent.tools.ask import Answerer, Question

if TYPE_CHECKING:
    from mcp.types import ElicitRequestFormParams, ElicitRequestParams, ElicitRequestURLParams, ElicitResult

Action: TypeAlias = Literal["accept", "decline", "cancel"]

MAX_MESSAGE_CHARS = 2_000  # of a server's text with a question
MAX_QUESTIONS = 30  # of a server between two calls
_TRIES = 3  # for an answer that is accepted
_ANSWER, _SUGGESTED, _DECLINE = "Answer", "Use the suggested values", "Decline"
_OPEN, _OPENED = "Open it in the browser", "I have opened it myself"
_DECLINED = "The person was not asked, or did not agree to open it."


@dataclass(frozen=True, slots=True)
class _Asking:
    """Puts questions in the name of a server."""

    server: str
    answer: Answerer

    async def __call__(self, text: str, options: tuple[str, ...], *, multiple: bool = False) -> str | None:
        who = f"The MCP server {printable(self.server)}"
        return await self.answer(Question(who, text, options, multiple))


class Elicitor:
    """Asks one person the questions of all servers."""

    def __init__(self, answer: Answerer | None) -> None:
        self._answer, self._floor = answer, asyncio.Lock()
        self._asked: dict[str, int] = {}  # by server, since its last call began

    def begin(self, server: str) -> None:
        """Begin a call of a server, which may ask questions."""
        self._asked[server] = 0

    async def ask(self, server: str, params: "ElicitRequestParams") -> "ElicitResult":
        """Put a server's question to the person."""
        from mcp.types import ElicitRequestURLParams, ElicitResult

        self._asked[server] = asked = self._asked.get(server, 0) + 1
        if self._answer is None or asked > MAX_QUESTIONS:
            return ElicitResult(action="decline")
        async with self._floor:
            if isinstance(params, ElicitRequestURLParams):
                return await self._page(server, self._answer, params)
            return await self._form(server, self._answer, params)

    async def show_pages(self, server: str, data: object) -> str:
        """Ask about the pages that a server wants opened before a call; return the text for the model."""
        from mcp import types
        from pydantic import ValidationError

        try:
            wanted = types.ElicitationRequiredErrorData.model_validate(data).elicitations
        except ValidationError:
            wanted = []
        agreed = [(await self.ask(server, one)).action == "accept" for one in wanted]
        start = "wants a page opened in a browser first."
        if agreed and all(agreed):
            return f"{start} The person has it open: call the tool again when they say that they are done there."
        return f"{start} {_DECLINED}"

    async def _form(self, server: str, answer: Answerer, params: "ElicitRequestFormParams") -> "ElicitResult":
        from mcp.types import ElicitResult

        message = printable(params.message)[:MAX_MESSAGE_CHARS]
        fields = read_fields(params.requested_schema)
        if fields is None:
            return ElicitResult(action="decline")
        ask = _Asking(server, answer)
        if len(fields) != 1:
            chosen = await _begin(message, fields, ask)
            if chosen in (None, _DECLINE):
                return ElicitResult(action="cancel" if chosen is None else "decline")
            if chosen == _SUGGESTED:
                suggested = {field.name: field.default for field in fields if field.default is not None}
                return ElicitResult(action="accept", content=_content(suggested))
        content: dict[str, object] = {}
        for number, field in enumerate(fields, 1):
            place = f" ({number} of {len(fields)})" if len(fields) > 1 else ""
            extra = (_DECLINE,) if len(fields) == 1 else ()
            found, value = await _ask_field(f"{message}\n\n{field.text()}{place}", field, extra, ask)
            if found != "accept":
                return ElicitResult(action=found)
            if value is not None:
                content[field.name] = value
        return ElicitResult(action="accept", content=_content(content))

    async def _page(self, server: str, answer: Answerer, params: "ElicitRequestURLParams") -> "ElicitResult":
        import webbrowser

        from mcp.types import ElicitResult

        host = _host_of(params.url)
        if host is None:
            return ElicitResult(action="decline")
        text = (
            f"{printable(params.message)[:MAX_MESSAGE_CHARS]}\n\n"
            f"It wants you to open a page of `{spelled(host)}` in a browser:\n\n    {printable(params.url)}"
        )
        said = await _Asking(server, answer)(text, (_OPEN, _OPENED, _DECLINE))
        if said == _OPEN:
            await asyncio.to_thread(webbrowser.open, params.url)
        agreed = said in (_OPEN, _OPENED)
        return ElicitResult(action="accept" if agreed else "cancel" if said is None else "decline")


async def _begin(message: str, fields: tuple[Field, ...], ask: _Asking) -> str | None:
    """Ask how the person wants to answer a form of several fields, or of none."""
    suggested = [f"{field.title} = {field.shown(field.default)}" for field in fields if field.default is not None]
    ready = bool(suggested) and all(field.default is not None for field in fields if field.required)
    text = f"{message}\n\n{_asked(fields)}" + (f"\n\nSuggested: {one_line(', '.join(suggested), 500)}" if ready else "")
    options = (_ANSWER, *((_SUGGESTED,) if ready else ()), _DECLINE)
    for _ in range(_TRIES):
        said = await ask(text, options)
        if said is None or said in options:
            return said
    return None


def _asked(fields: tuple[Field, ...]) -> str:
    if not fields:
        return "There is nothing to fill in: this is a yes or no."
    return f"It asks for {len(fields)} things: {one_line(', '.join(field.title for field in fields), 500)}"


async def _ask_field(text: str, field: Field, extra: tuple[str, ...], ask: _Asking) -> tuple[Action, object]:
    """Return "accept" with the value, None for a field that is left out; or the action that ends the form."""
    wrong = ""
    for _ in range(_TRIES):
        said = await ask(f"{wrong}{text}", (*field.options(), *extra), multiple=field.multiple)
        if said is None:
            return "cancel", None
        if said in extra:
            return "decline", None
        value, fault = field.read(said)
        if not fault:
            return "accept", value
        wrong = f"That is not valid: {one_line(printable(fault), 300)}.\n\n"
    return "cancel", None


def _content(values: Mapping[str, object]) -> "dict[str, str | int | float | bool | list[str] | None]":
    return cast("dict[str, str | int | float | bool | list[str] | None]", dict(values))


def _host_of(url: str) -> str | None:
    """Return the host of a page that may be shown; None for another address, or one that disguises its host."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    odd = "@" in parts.netloc or "\\" in url or not url.isprintable() or " " in url
    named = re.fullmatch(r"[\w.:-]+", parts.hostname or "")
    if parts.scheme not in ("https", "http") or not parts.hostname or not named or odd or len(url) > MAX_MESSAGE_CHARS:
        return None
    return f"{parts.hostname}:{port}" if port else parts.hostname
