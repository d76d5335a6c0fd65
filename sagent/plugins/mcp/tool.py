"""A tool of an MCP server, as a Tool."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, cast

from sagent.errors import ToolError
from sagent.lib.json import (
    JsonObject,
    as_array,
    as_object,
    json_dump,
    json_freeze_object,
    json_thaw,
    sha256_hex,
    wire_bytes,
)
from sagent.lib.pace import offload
from sagent.lib.text import one_line, printable
from sagent.messages import Text
from sagent.plugins.mcp.link import Link, failure, is_closed
from sagent.plugins.mcp.output import is_small, output_of, words_in
from sagent.plugins.mcp.pins import Pins
from sagent.tool import RunContext, ToolOutput

if TYPE_CHECKING:
    from mcp import Client, MCPError
    from mcp.types import CallToolResult
    from mcp.types import Tool as McpToolInfo

    from sagent.lib.json import Thawed

MAX_DESCRIPTION_CHARS = 2_000
MAX_SHOWN_CHARS = 8_000  # of a definition that a person has to approve
_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")


class Definition:
    """A server's definition of a tool, in a form for a model. `fingerprint` covers all of it."""

    def __init__(self, info: "McpToolInfo") -> None:
        self.description = printable(info.description or info.title or info.name)[:MAX_DESCRIPTION_CHARS]
        self.parameters = _schema(info.input_schema)
        said = info.model_dump(mode="json", by_alias=True, exclude={"meta", "icons"}, exclude_none=True)
        self.fingerprint = sha256_hex(wire_bytes(_finite(said)))

    @property
    def shown(self) -> str:
        """The text that a person is asked to approve."""
        text = one_line(f"{self.description} Its arguments: {printable(json_dump(self.parameters))}", 1 << 20)
        cut = len(text) - MAX_SHOWN_CHARS
        return f"{text[:MAX_SHOWN_CHARS]} ({cut:,} more characters)" if cut > 0 else text


class McpTool:
    """A tool of a server. The server's statements about its effects are not trusted: a policy asks as for a command.

    `description` and `parameters` are those that the model was given, unchanged in a session; `now` is the server's
    present definition, None if it no longer offers the tool.
    """

    def __init__(self, link: Link, info: "McpToolInfo", pins: Pins) -> None:
        self._link, self._pins = link, pins
        self.own, self.server = info.name, link.name
        self.deferrable = not link.server.always_load
        self.name = f"mcp__{plain(link.name)}__{plain(info.name)}"[:64]
        self.now: Definition | None = (given := Definition(info))
        self._first = given.fingerprint
        self.description, self.parameters = given.description, given.parameters
        self._judged: dict[str, str] = {}  # definition by ids of calls, at the time of judgement

    @property
    def lenient(self) -> Literal[False, "schema"]:
        """Left to the server: the schema, if it has changed since the model was given it."""
        return "schema" if self.now is None or self.now.fingerprint != self._first else False

    @property
    def changed(self) -> bool:
        """True if its definition has changed since its last approval."""
        pinned = self._pins.of(self._link.server, self.own)
        return self.now is not None and pinned is not None and pinned != self.now.fingerprint

    def approve(self) -> None:
        """Take its definition as it is now as approved."""
        if self.now is not None:
            self._pins.approve(self._link.server, self.own, self.now.fingerprint)

    def note_judged(self, call: str) -> None:
        """Record the tool's present definition, by which a call is judged and a person may be asked."""
        if self.now is not None:
            self._judged[call] = self.now.fingerprint

    def _settle(self, call: str) -> None:
        """Let a call be made. Raises ToolError if the tool's definition has changed since the call was judged."""
        assert self.now is not None
        seen = self._judged.pop(call, None)
        if seen not in (None, self.now.fingerprint):
            raise ToolError(f"The MCP server {self.server} has just changed {printable(self.own)}: call it again.")
        if seen is not None or self._pins.of(self._link.server, self.own) is None:
            self.approve()

    async def __call__(self, arguments: JsonObject, run: RunContext) -> ToolOutput:
        """Call it. Raises ToolError without a result; the effect of a sent call may then be unknown."""
        if self.now is None:
            raise ToolError(f"The MCP server {self.server} no longer offers {printable(self.own)}.")
        self._settle(run.call_id)
        self._link.elicitor.begin(self.server)
        thawed = json_thaw(arguments)
        assert isinstance(thawed, dict)
        client = await self._client()
        finish = self._link.attend()
        try:
            result = await self._call(client, thawed, run)
        finally:
            undone = finish()
        self._link.works()
        small = result.structured_content is None and is_small(result.content)
        output = await offload(lambda _: output_of(result, self.server), small=small)
        output = replace(output, content=(*output.content, *(Text(f"({each})") for each in undone)))
        if output.is_error and (hint := self._link.hint(words_in(output.content))):
            return replace(output, content=(*output.content, Text(f"({hint})")))
        return output

    async def _client(self) -> "Client":
        try:
            return await self._link.client()
        except Exception as error:
            self._link.lost()
            raise await self._failed(error, "The call was not sent.") from error

    async def _call(
        self, client: "Client", arguments: "dict[str, Thawed]", run: RunContext, *, again: bool = True
    ) -> "CallToolResult":
        """Return the server's answer. A call is repeated only if the server has said that it did not read it."""
        from mcp import MCPError

        async def report(progress: float, total: float | None, message: str | None) -> None:
            run.progress(
                one_line(printable(message or ""), 200) or (f"{progress:g} of {total:g}" if total else f"{progress:g}")
            )

        try:
            return await client.call_tool(self.own, arguments, progress_callback=report)
        except MCPError as error:
            if again and _is_ended_session(error):
                self._link.lost()
                return await self._call(await self._client(), arguments, run, again=False)
            if not is_closed(error) and not self._link.login_wanted():
                raise ToolError(f"{self._who} {await self._reply(error)}") from error
            self._link.lost()
            raise await self._failed(error, _UNKNOWN) from error
        except Exception as error:
            if isinstance(error, ValueError | RuntimeError) and self._link.state == "connected":  # it has answered
                raise ToolError(f"{self._who} gave an answer that cannot be used: {failure(error)}") from error
            self._link.lost()
            raise await self._failed(error, _UNKNOWN) from error

    async def _reply(self, error: "MCPError") -> str:
        """Describe what the server did instead of the call."""
        from mcp import types

        match error.code:
            case types.REQUEST_TIMEOUT:
                return f"has not answered within {self._link.server.timeout:g} s (its timeout). {_UNKNOWN}"
            case types.URL_ELICITATION_REQUIRED:
                return await self._link.elicitor.show_pages(self.server, error.data)
            case _:
                return f"answered with an error: {one_line(printable(error.message), 1_000) or failure(error)}"

    @property
    def _who(self) -> str:
        return f"The MCP server {self.server}"

    async def _failed(self, error: Exception, consequence: str) -> ToolError:
        reason = await self._link.reason(error)
        hint = self._link.hint(reason)
        consequence = "" if self._link.login_wanted() else consequence
        return ToolError(f"{self._who} failed: {reason}. {consequence}".strip() + (f" ({hint})" if hint else ""))


_UNKNOWN = "Whether it did what the call asked for is unknown: find out before you call it again."


def _is_ended_session(error: "MCPError") -> bool:
    """Return True if a server of the earlier protocol does not know the session: its messages were not read."""
    return error.message == "Session terminated"


def plain(name: str) -> str:
    """Return a name in the characters that names of tools may have."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


def _schema(schema: Mapping[str, object]) -> JsonObject:
    """Return a schema as providers take it: of an object, without members that are null, and without strange types."""
    members = {key: value for key, value in as_object(_finite(schema)).items() if value is not None}
    return json_freeze_object({**as_object(_usual(members)), "type": "object"})


def _usual(schema: object) -> object:
    """Return the schema without types unknown to JSON Schema, such as "float": providers refuse each request with one,
    and the server checks arguments itself."""
    if not isinstance(schema, dict):
        return [_usual(each) for each in as_array(cast("object", schema))] if isinstance(schema, list) else schema
    found: dict[str, object] = {}
    for key, value in as_object(cast("object", schema)).items():
        if key in ("properties", "$defs", "definitions"):
            found[key] = {name: _usual(each) for name, each in as_object(value).items()}
        elif key in ("items", "additionalProperties", "anyOf", "oneOf", "allOf", "prefixItems"):
            found[key] = _usual(value)
        elif key != "type" or all(name in _TYPES for name in as_array(value) or (value,)):
            found[key] = value
    return found


def _finite(value: object) -> object:
    """Return the value without numbers that JSON cannot express."""
    return json.loads(json.dumps(value), parse_constant=lambda _: None)
