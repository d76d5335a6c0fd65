"""Converts history by any model to an acceptable form for one family of providers. Pure: no bytes, no network.

The result alternates strictly, user first; every call is answered once, right after it; no text is blank; no private
data of others are left. It is stable: a closed turn never changes when the history grows, only the open one.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_object, as_str, valid_text
from sagent.messages import Document, Image, Message, Opaque, Part, Private, Text, Thinking, ToolCall, ToolResult

if TYPE_CHECKING:
    from sagent.providers.deferral import Deferral
    from sagent.providers.toolforms import Naming

Shown: TypeAlias = Text | Image | Document
ModelPart: TypeAlias = Text | Thinking | ToolCall | Opaque

INTERRUPTED = "[interrupted: this call was not finished, there is no result]"
NO_OUTPUT = "(no output)"
OPENING = "(the beginning of this conversation is not shown)"
CONTINUE = "Continue."
EMPTY = "(empty message)"
PAUSED = "(paused)"

MAX_EXCERPT_CHARS = 2_000
_MAX_QUESTION_CHARS = 300
_ASKED = ("query", "queries", "url", "pattern", "code", "command")


def excerpt(words: str) -> str:
    """Shorten a server tool's result for a person and other providers."""
    return words if len(words) <= MAX_EXCERPT_CHARS else f"{words[:MAX_EXCERPT_CHARS]}…"


def describe_input(tool: str, arguments: Mapping[str, object]) -> str:
    """Describe in one line the input of a server tool."""
    words = " ".join(" ".join(words_in(arguments, _ASKED)).split())
    return f"[{tool}: {words[:_MAX_QUESTION_CHARS]}]" if words else f"[{tool}]"


def words_in(value: object, members: Sequence[str]) -> Iterable[str]:
    """Yield the readable strings of a result, in order: itself, its items, and those members of its objects."""
    if isinstance(value, str):
        yield value
    for item in as_array(value):
        yield from words_in(item, members)
    fields = as_object(value)
    for name in members if as_str(fields.get("type")) != "base64" else ():
        if name in fields:
            yield from words_in(fields[name], members)


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of one call. `call_id` and `name` are the call's, as sent."""

    call_id: str
    name: str
    content: tuple[Shown, ...]  # never empty
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class UserTurn:
    """Everything between two turns of the model: the answers to all its calls, in their order, then the rest."""

    answers: tuple[CallResult, ...]
    parts: tuple[Shown, ...]

    @property
    def shown(self) -> tuple[Shown, ...]:
        """Everything in it for the model, in order."""
        return (*(part for answer in self.answers for part in answer.content), *self.parts)


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """A model's turn. Ids of calls are unique in the conversation and safe; `malformed` arguments are removed."""

    parts: tuple[ModelPart, ...]


Turn: TypeAlias = UserTurn | ModelTurn


@dataclass(frozen=True, slots=True)
class Rules:
    """Limits of one family: private data under the label `family`; ids up to `longest_id` characters.

    Ids consist of letters, digits, `_` and `-`. With `own_ids`, messages of that "provider/" keep ids of any other
    form, up to `longest_own` characters. With `id_length` an id has exactly so many letters and digits.
    """

    family: str
    longest_id: int = 64
    own_ids: str = ""
    longest_own: int = 0
    id_length: int = 0


class Handover:
    """One history being handed over, message by message."""

    def __init__(self, rules: Rules, deferral: "Deferral | None" = None, naming: "Naming | None" = None) -> None:
        self._rules = rules
        self._deferral, self._naming = deferral, naming
        self._started = False
        self._users: list[Message] = []  # since the last turn of the model
        self._calls: tuple[tuple[str, ToolCall], ...] = ()  # of that turn: the id in the history, and what goes out
        self._paused: ModelTurn | None = None  # that turn, while its provider may still continue it
        self._open: UserTurn | None = None
        self._used: set[str] = set()
        self._next: dict[str, int] = {}

    def feed(self, message: Message) -> list[Turn]:
        """Take the next message; the turns that it closes."""
        closed: list[Turn] = []
        if message.role == "user":
            if self._paused is not None:
                closed.append(ModelTurn(_settled(self._paused.parts) or (Text(PAUSED),)))
                self._paused = None
            self._users.append(message)
            self._open = None
            return closed
        calls, parts = self._accept(message)
        if not parts:
            return closed  # nothing to send: the user's turn stays open
        if self._paused is not None:
            parts = (*self._paused.parts, *parts)
            self._paused = None
        else:
            closed.append(self._user_turn())
        turn = ModelTurn(parts)
        if message.stop == "pause" and not calls and any(isinstance(part, Opaque) for part in parts):
            self._paused = turn
        elif message.stop == "tool_use" and calls:
            closed.append(turn)  # a server tool that still waits runs together with these calls
        else:
            closed.append(ModelTurn(_settled(parts) or (Text(PAUSED),)))
        self._started, self._users, self._calls, self._open = True, [], calls, None
        return closed

    def open(self) -> Turn:
        """Return the turn that is still open, as a request made now would show it."""
        return self._paused or self._user_turn()

    def _user_turn(self) -> UserTurn:
        if self._open is None:
            answers = self._answers()
            parts = tuple(part for message in self._users for part in _shown(message))
            if not answers and not parts:
                parts = (Text(EMPTY if self._users else CONTINUE if self._started else OPENING),)
            self._open = UserTurn(answers, parts)
        return self._open

    def _answers(self) -> tuple[CallResult, ...]:
        """Return a result for each open call, in the order of the calls; results of no open call are left out."""
        results: dict[str, list[ToolResult]] = {}
        for message in self._users:
            for result in message.results:
                results.setdefault(result.call_id, []).append(result)
        answers: list[CallResult] = []
        for original, call in self._calls:
            waiting = results.get(original)
            if waiting:
                result = waiting.pop(0)
                content = tuple(
                    _typed(part) for part in result.content if not (isinstance(part, Text) and not part.text.strip())
                )
                answers.append(CallResult(call.id, call.name, content or (Text(NO_OUTPUT),), result.is_error))
            else:
                answers.append(CallResult(call.id, call.name, (Text(INTERRUPTED),), is_error=True))
        return tuple(answers)

    def _accept(self, message: Message) -> tuple[tuple[tuple[str, ToolCall], ...], tuple[ModelPart, ...]]:
        """Return the calls and the parts of a model's message that this family may read."""
        calls: list[tuple[str, ToolCall]] = []
        parts: list[ModelPart] = []
        own = bool(self._rules.own_ids) and message.model.startswith(self._rules.own_ids)
        for part in message.parts:
            match part:
                case Text(text, private):
                    if text.strip():
                        parts.append(Text(text, self._own(private)))
                case Thinking(_, private):
                    if self._own(private):
                        parts.append(part)
                case ToolCall():
                    named = self._naming.sent(part) if self._naming else part
                    name = safe_name(named.name, 64) or "unknown"
                    call = replace(
                        named,
                        id=self._fresh_id(part.id, keep=own),
                        name=name,
                        malformed=None,
                        private=self._own(part.private) if name == named.name else None,  # a signature is of the name
                    )
                    call = self._sent(call)
                    calls.append((part.id, call))
                    parts.append(call)
                case Opaque(text, private):
                    if self._own(private):
                        parts.append(part)
                    elif text.strip():
                        parts.append(Text(text))
                case Image() | Document() | ToolResult():  # no provider accepts them from a model
                    parts += (Text(f"[{part.media_type}]"),) if isinstance(part, Image) else ()
        while parts and isinstance(parts[-1], Thinking):
            parts.pop()  # a reply must not end in thinking (Anthropic), and thinking alone has no content
        return tuple(calls), tuple(parts)

    def _sent(self, call: ToolCall) -> ToolCall:
        """Return a call as sent, if the model was not shown its tool."""
        if self._deferral is None and not (call.private and "through" in as_object(call.private.data)):
            return call
        from sagent.providers.deferral import NONE

        return (self._deferral or NONE).sent(call)

    def _forgets(self, private: Private) -> bool:
        """Return True if a block of a provider's tool search that this request does not use has to be left out."""
        block = as_object(private.data)
        if "tool_search" not in as_str(block.get("type")) + as_str(block.get("name")):
            return False
        from sagent.providers.deferral import NONE

        return (self._deferral or NONE).forgets(block)

    def _own(self, private: Private | None) -> Private | None:
        if private is None or private.family != self._rules.family or self._forgets(private):
            return None
        return private

    def _fresh_id(self, original: str, *, keep: bool) -> str:
        if self._rules.id_length:
            return self._exact_id(original)
        longest = self._rules.longest_id
        most = max(longest, self._rules.longest_own)
        kept = keep and 0 < len(original) <= most and original.isascii() and original.isprintable()
        stem = original if kept else safe_name(original, longest) or "call"
        new = stem
        while new in self._used:
            count = self._next[stem] = self._next.get(stem, 1) + 1
            ending = f"_{count}"
            new = stem[: longest - len(ending)] + ending
        self._used.add(new)
        return new

    def _exact_id(self, original: str) -> str:
        """Return the id itself if it has the form, else letters and digits made from it."""
        length, new = self._rules.id_length, original
        while new in self._used or not (len(new) == length and new.isascii() and new.isalnum()):
            count = self._next[original] = self._next.get(original, 0) + 1
            new = hashlib.sha256(f"{valid_text(original)}\0{count}".encode()).hexdigest()[:length]
        self._used.add(new)
        return new


def safe_name(name: str, max_length: int) -> str:
    """Return the name with everything but ASCII letters, digits, `_` and `-` replaced by `_`, cut to a length."""
    if len(name) <= max_length and name.isascii() and name.replace("_", "").replace("-", "").isalnum():
        return name
    return "".join(char if char.isascii() and (char.isalnum() or char in "_-") else "_" for char in name[:max_length])


def _shown(message: Message) -> Iterable[Shown]:
    """Yield the content of a user message except results, after the sender's name if it is not the person."""
    prefix = f"[from {message.sender}]\n" if message.sender else ""
    for part in message.parts:
        if isinstance(part, Text):
            if part.text.strip():
                yield Text(prefix + part.text)
                prefix = ""
        elif isinstance(part, Image | Document):
            yield _typed(part)


def _typed(part: Shown) -> Shown:
    """Return an image with the type of its bytes, because providers refuse another."""
    from sagent.lib.image import image_type  # for few conversations

    kind = image_type(part.data) if isinstance(part, Image) else ""
    return replace(part, media_type=kind) if isinstance(part, Image) and kind not in ("", part.media_type) else part


def _settled(parts: tuple[ModelPart, ...]) -> tuple[ModelPart, ...]:
    """Drop a server tool's use without a result: it will never be continued (Anthropic answers 400)."""
    uses = [as_str(_data(part).get("id")) for part in parts if _is_use(part)]
    named = [as_str(_data(part).get("tool_use_id")) for part in parts if isinstance(part, Opaque)]
    unknown = sum(bool(name) and name not in uses for name in named)  # results whose uses were renamed
    lost = [use for use in uses if use not in named][unknown:]
    kept = [part for part in parts if not (_is_use(part) and as_str(_data(part).get("id")) in lost)]
    while kept and isinstance(kept[-1], Thinking):
        kept.pop()
    return tuple(kept)


def _is_use(part: Part) -> bool:
    return isinstance(part, Opaque) and as_str(_data(part).get("type")).endswith("tool_use")


def _data(part: Part) -> "dict[str, object]":
    return dict(as_object(part.private.data)) if isinstance(part, Opaque) else {}
