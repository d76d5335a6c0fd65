"""Request bodies, joined from bytes that are encoded once: request N+1 begins with the bytes of request N."""

import hashlib
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import TYPE_CHECKING

from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, JsonObject, wire_bytes
from sagent.messages import Message
from sagent.model import Request, ToolSpec
from sagent.providers.handover import Handover, ModelTurn, Rules, Shown, Turn, UserTurn
from sagent.providers.toolforms import Fitted, Naming, ToolForm, are_plain

if TYPE_CHECKING:
    from sagent.providers.deferral import Deferral

_MIN_BLOCK_BYTES = 65_536  # bytes: closed turns are joined once, into blocks of at least this size
_CONVERSATIONS = 64  # kept; the least recently used are encoded again on return


@dataclass(frozen=True, slots=True)
class Body:
    """A request body in parts, its sha256, and an upper bound of its input tokens."""

    parts: tuple[bytes, ...]
    sha256: str
    max_input_tokens: int

    @property
    def data(self) -> bytes:
        return b"".join(self.parts)

    @property
    def size(self) -> int:
        return sum(map(len, self.parts))


@dataclass(frozen=True, slots=True)
class Piece:
    """An encoded turn: one or more JSON messages joined by commas. `max_input_tokens` bounds its tokens."""

    data: bytes
    max_input_tokens: int


class Dialect(ABC):
    """Encoding of requests in one family's format."""

    __slots__ = ()

    @property
    @abstractmethod
    def rules(self) -> Rules:
        """The limits of the family."""

    @property
    def tool_form(self) -> ToolForm | None:
        """The form in which it accepts tools; None for any."""
        return None

    @abstractmethod
    def head(self, request: Request) -> bytes:
        """Return the beginning of a body, up to the first turn; a server tool comes in the option `tools`."""

    @abstractmethod
    def said(self, turn: ModelTurn) -> Sequence[object]:
        """Return a turn of the model's as JSON messages."""

    @abstractmethod
    def shown(self, turn: UserTurn) -> Sequence[object]:
        """Return a turn of the user's as JSON messages."""

    def media_tokens(self, part: Shown) -> int:
        """Return what to add to a part's encoded size so that the sum bounds its tokens."""
        return 0

    def encode(self, turn: Turn) -> Piece:
        """Return a turn's bytes."""
        if isinstance(turn, ModelTurn):
            data = b",".join(map(wire_bytes, self.said(turn)))
            return Piece(data, len(data))
        data = b",".join(map(wire_bytes, self.shown(turn)))
        return Piece(data, len(data) + sum(map(self.media_tokens, turn.shown)))

    def mark(self, data: bytes) -> bytes | None:
        """Return the bytes of a user's turn with a cache breakpoint at its end; None if prefixes are cached without."""
        return None


def body_start(members: Mapping[str, object], turns: str, first: Sequence[object] = ()) -> bytes:
    """Return the beginning of a body: the members with a value, and the list of turns, begun with `first`."""
    said = {name: value for name, value in members.items() if value}
    return wire_bytes({**said, turns: first})[:-2] + (b"," if first else b"")


def sendable(arguments: JsonObject) -> JsonObject:
    """Return a call's arguments as they were, unless JSON cannot express them (an infinite number)."""
    try:
        wire_bytes(arguments)
    except (ValueError, TypeError, RecursionError):
        return EMPTY
    return arguments


def schema_tokens(request: Request) -> int:
    """Return the most tokens that an answer's schema adds to a request, as providers show and explain it."""
    return 0 if request.output_schema is None else 2 * len(wire_bytes(request.output_schema)) + 500


class EncodingCache:
    """The conversations of one provider, each with its encoded turns."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._kept: OrderedDict[str, EncodedConversation] = OrderedDict()
        self._fitted: tuple[tuple[ToolSpec, ...], Fitted] = ((), Fitted(()))  # the last tools, and how they go out

    def conversation(self, request: Request) -> "EncodedConversation":
        """Return the request's conversation, with exactly its messages; only new ones are encoded."""
        asked, conversation, deferral = request, self._kept.get(request.conversation), None
        if any(tool.deferred for tool in request.tools):
            from sagent.providers.deferral import deferral_of, shown

            deferral = deferral_of(request.tools)
            request = replace(request, tools=shown(request.tools))
        if self._fitted[0] != request.tools:
            self._fitted = request.tools, self._fit(request.tools)
        fitted = self._fitted[1]
        request = replace(request, tools=fitted.tools)
        known = conversation is not None and (conversation.deferral, conversation.naming) == (deferral, fitted.naming)
        if conversation is None or not known or not conversation.follow(request.messages):
            conversation = EncodedConversation(self._dialect, deferral, fitted.naming)
            self._kept[request.conversation] = conversation
            conversation.follow(request.messages)
        conversation.begin(request)
        conversation.asked = asked
        self._kept.move_to_end(request.conversation)
        if len(self._kept) > _CONVERSATIONS:
            self._kept.popitem(last=False)
        return conversation

    def _fit(self, tools: tuple[ToolSpec, ...]) -> Fitted:
        form = self._dialect.tool_form
        if form is None or are_plain(tools, form):
            return Fitted(tools)
        from sagent.providers.fitting import fit_tools

        return fit_tools(tools, form)


class EncodedConversation:
    """One conversation's bytes: its closed turns, which never change, and the open turn. `deferral` converts calls of
    deferred tools, `naming` changed names."""

    def __init__(self, dialect: Dialect, deferral: "Deferral | None" = None, naming: Naming | None = None) -> None:
        self.deferral, self.naming = deferral, naming
        self._dialect = dialect
        self._handover = Handover(dialect.rules, deferral, naming)
        self.asked: Request | None = None  # its last request
        self._messages: list[Message] = []
        self._closed: list[bytes] = []
        self._users: list[int] = []  # positions of the user's last two closed turns
        self._max_input_tokens = 0
        self._open: tuple[Turn, Piece] | None = None
        self._made_of: object = None
        self._head = b""
        self._hash = hashlib.sha256()
        self._hashed = 0  # closed turns inside the hash
        self._blocks: list[bytes] = []
        self._joined = 0  # closed turns inside the blocks
        self._loose = 0  # bytes of stable turns that are in no block

    @property
    def family(self) -> str:
        """The label of the provider's private data."""
        return self._dialect.rules.family

    def is_of(self, request: Request) -> bool:
        """Return True if it was last made the conversation of a request with these very members."""
        own = self.asked
        return (
            own is not None
            and own.messages is request.messages
            and own.tools is request.tools
            and own.options is request.options
            and own.system is request.system
        )

    def follow(self, messages: Sequence[Message]) -> bool:
        """Add new messages. Return False without changes if these messages do not begin with the known ones."""
        known = len(self._messages)
        if len(messages) < known or not all(map(is_, self._messages, messages)):
            return False
        for message in messages[known:]:
            self._messages.append(message)
            for turn in self._handover.feed(message):
                self._close(turn)
        return True

    def begin(self, request: Request) -> None:
        """Write the head, unless system prompt and tools are the last ones."""
        made_of = (request.system, request.tools, request.options.get("tools"))
        if made_of != self._made_of:
            self._made_of, self._head = made_of, self._dialect.head(request)
            self._hash, self._hashed = hashlib.sha256(self._head), 0

    def max_input_tokens(self) -> int:
        """Return an upper bound of the tokens of head and turns."""
        return len(self._head) + self._max_input_tokens + self._tail()[1].max_input_tokens

    def write(self, members: Mapping[str, object], overhead: int) -> Body:
        """Return the body: head, turns and final members. Only parts that may still change are joined and hashed."""
        turn, _ = self._tail()
        users = [*self._users, len(self._closed)] if isinstance(turn, UserTurn) else self._users
        marked = {place: self._dialect.mark(self._at(place)) for place in users[-2:]}
        stable = min((place for place, data in marked.items() if data is not None), default=len(self._closed))
        digest = self._settle(stable)
        rest = [marked.get(place) or self._at(place) for place in range(self._joined, len(self._closed) + 1)]
        fresh = b",".join(rest[stable - self._joined :]) + b"]," + wire_bytes(members)[1:]
        digest.update(fresh)
        parts = (
            self._head,
            *self._blocks,
            b"".join((*(piece + b"," for piece in rest[: stable - self._joined]), fresh)),
        )
        return Body(parts, digest.hexdigest(), self.max_input_tokens() + overhead)

    def ends(self) -> tuple[bytes, Turn]:
        """Return the last closed turn (b"" if there is none), and the open one."""
        return self._closed[-1] if self._closed else b"", self._handover.open()

    def _at(self, place: int) -> bytes:
        return self._closed[place] if place < len(self._closed) else self._tail()[1].data

    def _settle(self, stable: int) -> "hashlib._Hash":
        """Hash and join newly stable turns; the hash covers the head and those turns, each with its comma."""
        for piece in self._closed[self._hashed : stable]:
            self._hash.update(piece)
            self._hash.update(b",")
            self._loose += len(piece)
        self._hashed = stable
        if self._loose >= _MIN_BLOCK_BYTES and stable > self._joined:
            self._blocks.append(b",".join((*self._closed[self._joined : stable], b"")))
            self._joined, self._loose = stable, 0
        return self._hash.copy()

    def _tail(self) -> tuple[Turn, Piece]:
        turn = self._handover.open()
        if self._open is None or self._open[0] is not turn:
            self._open = (turn, self._dialect.encode(turn))
        return self._open

    def _close(self, turn: Turn) -> None:
        known = self._open is not None and self._open[0] is turn
        piece = self._open[1] if known and self._open else self._dialect.encode(turn)
        if isinstance(turn, UserTurn):
            self._users = [*self._users[-1:], len(self._closed)]
        self._closed.append(piece.data)
        self._max_input_tokens += piece.max_input_tokens + 1
