"""One conversation with a running `claude`: it gets the history, a request for the next reply, and results.

The program has its own loop and tools. Its tools are turned off; ours are those of an MCP server that it reaches
through its own pipes. A call of one of them stays unanswered until the next request has the result, so the program's
loop pauses while ours runs, and its prompt cache is used. (The protocol is that of Anthropic's Agent SDK; seen with
Claude Code 2.1.197 and 2.1.330.)
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias
from uuid import uuid4

from sagent.errors import ModelError
from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, JsonObject, as_array, as_int, as_object, as_str, wire_bytes
from sagent.messages import Image, Message, Text, ToolCall
from sagent.model import Billed, Delta, Effort, Reply, RequestDigest, ToolSpec
from sagent.plugins.logins.claude_program import INSTALL, SERVER, ClaudeProcess, Program
from sagent.providers.families.anthropic.events import MessagesReplyReader
from sagent.providers.families.anthropic.provider import MessagesDialect
from sagent.providers.families.media import IMAGES, base64_text
from sagent.providers.handover import CONTINUE, CallResult, Handover, ModelTurn, Turn, UserTurn
from sagent.providers.wire.exchange import Timeouts
from sagent.providers.wire.faults import Origin, from_event, from_status
from sagent.usage import Charge

Line: TypeAlias = Mapping[str, object]

_MAX_RESULT_CHARS = 400_000  # the program writes longer ones to a file and shows the beginning (500,000)
_MAX_DESCRIPTION_CHARS = 2_000  # it cuts longer ones (2,048)
_LIKE_ITSELF = (b'{"type":"assistant","parent_tool_use_id":null,"session_id":"","message":', b"}")
_PREFIX = f"mcp__{SERVER}__"  # of our tools' names, in programs that cannot be made to leave it out
_BROKEN_OFF = ("Stream ended", "Connection", "connect", "timed out", "ECONNRESET")  # its messages about connections
_SETTLING_SECONDS = 10.0  # seconds for output after a reply has ended
_GOES_ON = ("max_tokens", "model_context_window_exceeded", "pause_turn", "compaction")  # by itself, with another call


@dataclass(frozen=True, slots=True)
class Setup:
    """Parameters of a run of the program, fixed while it lasts."""

    model: str
    system: str
    tools: tuple[ToolSpec, ...]
    max_output: int | None = None
    effort: Effort | None = None
    body: JsonObject = EMPTY  # members added to each request's body

    def variables(self) -> Mapping[str, str]:
        """Return the environment variables of the run."""
        limit = {"CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(self.max_output)} if self.max_output else {}
        return {**limit, **({"CLAUDE_CODE_EXTRA_BODY": wire_bytes(self.body).decode()} if self.body else {})}

    def prompt(self) -> str:
        """Return the system prompt; with the descriptions of tools that are too long for the program."""
        long = (f"# Tool {tool.name}\n\n{tool.description}" for tool in self.tools if _is_long(tool))
        return "\n\n".join(filter(None, (self.system, *long)))

    def listing(self) -> Sequence[Mapping[str, object]]:
        """Return the tools, as MCP has them."""
        return [
            {
                "name": tool.name,
                "description": f"See the system prompt, at: Tool {tool.name}" if _is_long(tool) else tool.description,
                "inputSchema": {"type": "object", **tool.parameters},
                "_meta": {"anthropic/alwaysLoad": True, "anthropic/maxResultSizeChars": 500_000},
            }
            for tool in self.tools
        ]


class Lost(Exception):
    """A kept program has ended meanwhile."""


class ProgramRun:
    """A run of the program and its input so far. One call at a time."""

    def __init__(self, process: ClaudeProcess, setup: Setup, origin: Origin, timeouts: Timeouts) -> None:
        self.setup = setup
        self.reusable = False  # the program waits for our loop and can be used again
        self.models: Sequence[Mapping[str, object]] = ()
        self._process = process
        self._origin = origin
        self._timeouts = timeouts
        self._dialect = MessagesDialect(origin.provider)
        self._handover = Handover(self._dialect.rules)
        self._sent: list[Message] = []
        self._reply: Message | None = None
        self._waiting: dict[str, tuple[str, object]] = {}  # calls the program has made: request and JSON-RPC id
        self._limit: Mapping[str, object] = EMPTY
        self._version = ""

    @classmethod
    async def open(cls, program: Program, setup: Setup, origin: Origin, timeouts: Timeouts) -> "ProgramRun":
        """Start the program and set it up. Raises ModelError."""
        argv = program.arguments(setup.model, setup.effort)
        try:
            process = await ClaudeProcess.start(argv, {**program.environ, **setup.variables()})
        except OSError as error:
            raise origin.error("server", f"{program.path} could not be started: {error}") from error
        run = cls(process, setup, origin, timeouts)
        try:
            await run._initialize()
        except BaseException:
            await run.close()
            raise
        return run

    async def close(self) -> None:
        """End the program."""
        await self._process.stopped()

    # Telling it

    async def send(self, messages: Sequence[Message]) -> None:
        """Send a whole history, by any author; the last turn is the question. Raises ModelError."""
        turns = [turn for message in messages for turn in self._handover.feed(message)]
        self._sent = list(messages)
        last = self._handover.open()
        if isinstance(last, ModelTurn):
            turns, last = [*turns, last], UserTurn((), (Text(CONTINUE),))
        for turn in turns:
            await self._send(self._line(turn, query=False))
            if isinstance(turn, UserTurn):
                await self._heard()
        await self._send(self._line(last, query=True))

    def continues(self, setup: Setup, messages: Sequence[Message]) -> bool:
        """Return True if the messages are those the program knows, its own reply, and new ones after it."""
        known = len(self._sent)
        return (
            self.reusable
            and setup == self.setup
            and len(messages) > known + 1
            and all(old is new or old == new for old, new in zip(self._sent, messages, strict=False))
            and messages[known] == self._reply
            and all(message.role == "user" for message in messages[known + 1 :])
        )

    async def continue_with(self, messages: Sequence[Message]) -> bool:
        """Send new messages. Return False if that is impossible in the middle of the program's turn, or it is gone."""
        self.reusable = False
        for message in messages[len(self._sent) :]:
            self._handover.feed(message)
        self._sent = list(messages)
        turn = self._handover.open()
        if not isinstance(turn, UserTurn):
            return False
        if not turn.answers:
            return await self._process.send(self._line(turn, query=True))
        if turn.parts or not all(map(_is_portable, turn.answers)):
            return False
        return await self._answer({answer.call_id: answer for answer in turn.answers})

    async def _answer(self, answers: dict[str, CallResult]) -> bool:
        """Answer the calls as the program makes them, one after the other. Return False if it does something else."""
        while True:
            for call_id in [call_id for call_id in answers if call_id in self._waiting]:
                request_id, rpc_id = self._waiting.pop(call_id)
                answer = answers.pop(call_id)
                if not await self._respond(request_id, rpc_id, {"result": _result(answer)}):
                    return False
            if not answers:
                return True
            line = await self._next(self._timeouts.stall)
            if line is None or line.get("type") in ("stream_event", "result"):
                return False

    def _line(self, turn: Turn, *, query: bool) -> bytes:
        """Return a turn as the program reads it."""
        if isinstance(turn, ModelTurn):
            # Messages with one id would be joined; the program counts the tokens itself.
            end = {"id": f"msg_{uuid4().hex}", "type": "message", "model": "claude", "stop_reason": "end_turn"}
            message = self._dialect.encode(turn).data[:-1] + b"," + wire_bytes({**end, "usage": {}})[1:]
            return _LIKE_ITSELF[0] + message + _LIKE_ITSELF[1]
        message = self._dialect.encode(UserTurn(tuple(map(_plain_error, turn.answers)), turn.parts)).data
        head = {"type": "user", "parent_tool_use_id": None, "session_id": "", "shouldQuery": query}
        return wire_bytes(head)[:-1] + b',"message":' + message + b"}"

    async def _heard(self) -> None:
        """Wait until a message that is not a question was read: the program reports an empty turn."""
        while (line := await self._next(self._timeouts.stall)) is not None:
            if line.get("type") == "stream_event":
                raise self._too_old("it answers messages that are only to be remembered")
            if line.get("type") == "result":
                return
        raise await self._gone()

    # Listening

    async def listen(self, digest: RequestDigest, max_input: int) -> AsyncGenerator[Delta | Reply]:
        """Yield the deltas of the reply, then the reply, limited to a number of tokens.

        Raises ModelError, and Lost if another program may be asked.
        """
        reading = _Reading(self._origin)
        reader = reading.reader
        while not reader.closed:
            working = reader.reasoning or not reading.begun
            line = await self._next(self._timeouts.reasoning_stall if working else self._timeouts.stall)
            if line is None:
                raise Lost if self._reply is not None and not reading.begun else await self._gone()
            out: list[Delta] = []
            if line.get("type") == "result" and not reading.whole(line, out):
                raise self._fault(line, reading)
            reading.take(line, out)
            if reading.ending and self._goes_on(reading.stop, reader):
                self._process.abort()
                reader.done()
            for delta in out:
                yield Billed(reading.served(delta.charges)) if isinstance(delta, Billed) else delta
        reader.finish(last := [])
        for delta in last:
            yield delta
        self._reply = self._named(reader.message())
        self.reusable = await self._settle(self._reply)
        usage, charges = reader.bill(max_input)
        yield Reply(self._reply, usage, reading.served(charges), digest, reader.response_id, reader.notes())

    def _goes_on(self, stop: str, reader: MessagesReplyReader) -> bool:
        """Return True if the program would now make another call itself."""
        return stop in _GOES_ON or (stop == "tool_use" and not any(map(self._is_ours, reader.message().calls)))

    def _is_ours(self, call: ToolCall) -> bool:
        """Return True if the program passes a call on. It answers calls that it considers invalid."""
        name = call.name.removeprefix(_PREFIX)
        return call.whole and call.malformed is None and any(tool.name == name for tool in self.setup.tools)

    async def _settle(self, message: Message) -> bool:
        """Read to the end of the program's turn and return True if it now waits for us."""
        if message.stop == "tool_use":
            return all(map(self._is_ours, message.calls))
        if message.calls or message.stop not in ("end", "stop_sequence"):  # it does not wait for results of cut calls
            return False
        with contextlib.suppress(ModelError):  # the reply is whole, whatever becomes of the program
            while (line := await self._next(_SETTLING_SECONDS)) is not None:
                if line.get("type") == "result":
                    return not line.get("is_error")
        return False

    def _named(self, message: Message) -> Message:
        """Return the message with our names of tools."""
        parts = tuple(
            replace(part, name=part.name.removeprefix(_PREFIX)) if isinstance(part, ToolCall) else part
            for part in message.parts
        )
        return replace(message, parts=parts)

    # The program's protocol

    async def _initialize(self) -> None:
        request = {"subtype": "initialize", "sdkMcpServers": [SERVER], "systemPrompt": [self.setup.prompt()]}
        await self._send(wire_bytes({"type": "control_request", "request_id": "setup", "request": request}))
        while (line := await self._next(self._timeouts.reasoning_stall)) is not None:
            response = as_object(line.get("response"))
            if line.get("type") == "control_response" and response.get("request_id") == "setup":
                if response.get("subtype") != "success":
                    raise self._too_old(as_str(response.get("error")) or "it rejected its setup")
                self.models = [as_object(row) for row in as_array(as_object(response.get("response")).get("models"))]
                return
        raise await self._gone()

    async def _next(self, timeout: float) -> Line | None:
        """Read the program's next line and answer its requests; None at its end. Raises ModelError("stalled")."""
        try:
            async with asyncio.timeout(timeout):
                line = await self._process.receive()
        except TimeoutError as error:
            raise self._origin.error("stalled", f"nothing arrived for {timeout:g} s") from error
        match as_str(line.get("type")) if line else "":
            case "control_request" if line:
                await self._serve(as_str(line.get("request_id")), as_object(line.get("request")))
            case "rate_limit_event" if line:
                self._limit = as_object(line.get("rate_limit_info"))
            case "system" if line:
                self._version = as_str(line.get("claude_code_version")) or self._version
            case _:
                pass
        return line

    async def _serve(self, request_id: str, request: Mapping[str, object]) -> None:
        """Answer a request of the program: those of an MCP client, and permission for our tools."""
        message = as_object(request.get("message"))
        params, rpc_id = as_object(message.get("params")), message.get("id")
        match as_str(request.get("subtype")), as_str(message.get("method")):
            case "mcp_message", "initialize":
                about = {
                    "protocolVersion": params.get("protocolVersion"),
                    "serverInfo": {"name": SERVER, "version": "1"},
                }
                await self._respond(request_id, rpc_id, {"result": {**about, "capabilities": {"tools": EMPTY}}})
            case "mcp_message", "tools/list":
                await self._respond(request_id, rpc_id, {"result": {"tools": self.setup.listing()}})
            case "mcp_message", "tools/call":
                call_id = as_str(as_object(params.get("_meta")).get("claudecode/toolUseId"))
                self._waiting[call_id] = (request_id, rpc_id)
            case "mcp_message", _:
                await self._respond(request_id, rpc_id if rpc_id is not None else 0, {"result": {}})
            case "can_use_tool", _:
                await self._control(request_id, {"behavior": "allow", "updatedInput": request.get("input")})
            case _:
                error = {"subtype": "error", "request_id": request_id, "error": "not supported"}
                await self._process.send(wire_bytes({"type": "control_response", "response": error}))

    async def _respond(self, request_id: str, rpc_id: object, outcome: Mapping[str, object]) -> bool:
        return await self._control(request_id, {"mcp_response": {"jsonrpc": "2.0", "id": rpc_id, **outcome}})

    async def _control(self, request_id: str, response: Mapping[str, object]) -> bool:
        success = {"subtype": "success", "request_id": request_id, "response": response}
        return await self._process.send(wire_bytes({"type": "control_response", "response": success}))

    async def _send(self, line: bytes) -> None:
        if not await self._process.send(line):
            raise await self._gone()

    # What went wrong

    def _fault(self, result: Line, reading: "_Reading") -> ModelError:
        """Return the error for a failed turn, by the program's message, the API's status, or its plan's limit."""
        words = as_str(result.get("result")) or "; ".join(map(str, as_array(result.get("errors"))))
        words = words.removeprefix("API Error: ") or "no explanation was given"
        code, status = as_str(reading.fault.get("error")), as_int(result.get("api_error_status")) or None
        if code == "authentication_failed" and status in (None, 401):
            return self._origin.error(
                "auth",
                f"{words.partition(' · ')[0].rstrip('.')}. Run `claude` and log in with /login, then try again.",
                status=status,
            )
        data = {"error": {"message": words, **({"type": "rate_limit_error"} if code == "rate_limit" else {})}}
        if status is not None:
            wait = as_int(self._limit.get("resetsAt")) - time.time()
            headers = {"retry-after": str(wait)} if status == 429 and wait > 0 else {}
            return from_status(self._origin, status, headers, wire_bytes(data))
        if any(sign in words for sign in _BROKEN_OFF):
            return self._origin.error("cut" if reading.begun or "Stream" in words else "network", words)
        return from_event(self._origin, data)

    async def _gone(self) -> ModelError:
        """Return the error for a program that has ended."""
        words = await self._process.complaint()
        if "unknown option" in words:
            return self._too_old(words.splitlines()[-1])
        said = f": {words[-600:]}" if words else ""
        return self._origin.error("cut", f"the program `claude` ended before its reply did{said}")

    def _too_old(self, reason: str) -> ModelError:
        version = f" {self._version}" if self._version else ""
        return self._origin.error(
            "invalid_request", f"the installed `claude`{version} is too old ({reason}). Update it: {INSTALL}@latest"
        )


def _is_long(tool: ToolSpec) -> bool:
    return len(tool.description) > _MAX_DESCRIPTION_CHARS


def _is_portable(answer: CallResult) -> bool:
    """Return True if the program passes a result on unchanged: no documents, and only one text in an error."""
    texts = [part.text for part in answer.content if isinstance(part, Text)]
    if sum(map(len, texts)) > _MAX_RESULT_CHARS:
        return False
    if answer.is_error:
        return len(texts) == len(answer.content) == 1
    images = [part for part in answer.content if isinstance(part, Image) and part.media_type in IMAGES]
    return len(texts) + len(images) == len(answer.content)


def _plain_error(answer: CallResult) -> CallResult:
    """Turn an error with media into a plain result, because the program drops the media of an error."""
    if not answer.is_error or all(isinstance(part, Text) for part in answer.content):
        return answer
    return replace(answer, is_error=False, content=(Text("Error:"), *answer.content))


def _result(answer: CallResult) -> Mapping[str, object]:
    content = [
        {"type": "text", "text": part.text}
        if isinstance(part, Text)
        else {"type": "image", "data": base64_text(part.data), "mimeType": part.media_type}
        for part in answer.content
    ]
    return {"content": content, "isError": answer.is_error}


class _Reading:
    """One reply, as the program passes it on: the API's own events, and its own reports of errors."""

    def __init__(self, origin: Origin) -> None:
        self.reader = MessagesReplyReader(origin, origin.provider)
        self.fault: Line = EMPTY  # the message that the program puts in place of a failed reply
        self.begun = False
        self.stop = ""
        self.ending = False  # the last event had the stop reason
        self._origin = origin
        self._model = origin.model
        self._pieces: list[Line] = []

    def take(self, line: Line, out: list[Delta]) -> None:
        """Take a line and append its deltas. Raises ModelError."""
        message = as_object(line.get("message"))
        if line.get("type") == "stream_event":
            self._event(as_object(line.get("event")), out)
        elif line.get("type") == "assistant" and (line.get("error") or message.get("model") == "<synthetic>"):
            self.fault = line
        elif line.get("type") == "assistant":
            self._pieces.append(message)

    def whole(self, result: Line, out: list[Delta]) -> bool:
        """Take a reply that the program had in one piece, without events; return False if there is none."""
        if result.get("is_error") or not self._pieces or self.begun:
            return False
        content = [block for piece in self._pieces for block in as_array(piece.get("content"))]
        self.reader.whole({**self._pieces[-1], "content": content}, out)
        return True

    def served(self, charges: Sequence[Charge]) -> tuple[Charge, ...]:
        """Charges by the answering model: "opus" is only the requested name."""
        asked = self._origin.model
        return tuple(replace(charge, model=self._model) if charge.model == asked else charge for charge in charges)

    def _event(self, event: Line, out: list[Delta]) -> None:
        kind = event.get("type")
        self.ending = kind == "message_delta"
        self.stop = as_str(as_object(event.get("delta")).get("stop_reason")) or self.stop
        if kind == "message_start":
            if self.begun:
                raise self._origin.error("cut", "the stream ended before the reply did")
            self.begun, self._model = True, as_str(as_object(event.get("message")).get("model")) or self._model
        if self.stop or kind != "message_stop":  # without a reason, the program ends a reply that an error interrupted
            self.reader.feed(event, out)
