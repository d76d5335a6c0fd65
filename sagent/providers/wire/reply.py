"""A reply under construction: the base of every family's event reader."""

import re
from abc import ABC, abstractmethod
from collections.abc import Container, Mapping, Sequence, Sized
from dataclasses import replace
from typing import TYPE_CHECKING

from sagent.cost.budget import MAX_TOKEN_CHARACTERS, is_count
from sagent.events import Advice
from sagent.lib.json import LONE, JsonObject, as_array, as_int, as_object, as_str, json_freeze, whole_text
from sagent.lib.money import ZERO, total
from sagent.lib.schema import mend_arguments
from sagent.messages import WITHDRAWN, Message, Part, Private, StopReason, ToolCall
from sagent.model import Billed, Delta, TextPart, ThinkingPart
from sagent.providers.wire.faults import Origin
from sagent.usage import Charge, Usage

if TYPE_CHECKING:
    from decimal import Decimal

    from sagent.providers.deferral import Deferral
    from sagent.providers.toolforms import Naming

_MAX_CALL_TOKENS = 10**12  # of one call: higher counts are cut to this, which sums and pages can still show
MAX_PARTS = 10_000  # blocks, calls and citations of an answer; each is found by a search over all
_INPUT_COUNTS = ("input_tokens", "prompt_tokens", "promptTokenCount", "inputTokens")  # with or without cached ones
_SAYING: Mapping[StopReason, str] = {
    "stop_sequence": "stop.?(sequence|string|word)",
    "content_filter": "filter|safety|block|prohibit|guardrail|sensitive|recitation|spii|moderat|policy|violat",
    "refusal": "refus|declin",
    "context_overflow": "context|window",
    "max_tokens": "length|limit|max_|budget|truncat|exceed|incomplete",
    "error": "error|malformed|fail|invalid|abort|cancel|interrupt|preempt|disconnect|timeout|timed.out|repetit",
}
_LIMITS: Sequence[StopReason] = ("stop_sequence", "max_tokens", "context_overflow")
_BAD: Mapping[StopReason, int] = {**{each: at for at, each in enumerate(_LIMITS, 1)}, **dict.fromkeys(WITHDRAWN, 4)}
_OWN_END = re.compile(r"\s*[<\[].*[>\]]\s*", re.DOTALL)  # a mark with which models end: <|im_end|>
_TAKES_BACK = re.compile(r"content.?(filter|policy)|guardrail|moderat|safety", re.IGNORECASE)
_MAX_WORDS_PER_TOKEN, _FREE_WORDS = 4, 16  # to a token, on average, and beyond that: with more it was not counted
_SUMMARY = 8  # ratio of a thought to its shown summary, which is not billed, at most


class ReplyReader(ABC):
    """A reply under construction in one family's format: pure, no clock and no network. Its methods raise ModelError
    for a provider's errors. `family` labels data that only that family may read back."""

    def __init__(self, origin: Origin, family: str) -> None:
        self.reasoning = True  # the model reasons, or has not begun
        self.complete = False  # the reply may end here
        self.closed = False  # the reply has ended: the rest does not matter
        self.counts_first = False  # the first count of the input is complete and does not grow
        self.closes_calls = False  # a call that the output limit cut may look whole: vLLM writes its end
        self.hourly = False  # one-hour caches were requested: writes of unknown lifetime count as such
        self.deferral: Deferral | None = None  # converts calls of tools that the model was not shown
        self.naming: Naming | None = None  # names that were changed for the provider
        self.response_id = ""
        self.received: int = 0  # characters of text and arguments, for an estimate without reported usage
        self.unshown = self._reported = 0  # bytes of arguments and other unshown data; and the reported part
        self._stated: tuple[Charge, ...] = ()  # by the last report
        self._words = self._blanks = 0  # words and white space in them
        self._thought = self._thought_words = 0  # what of both is thinking
        self._in_word = False
        self._halved: dict[type[TextPart | ThinkingPart], list[str]] = {}  # texts that end in half a surrogate pair
        self._origin = origin
        self._family = family
        self._summary = _SUMMARY
        self._stop = ""  # stop reason in the provider's words
        self._usage: dict[str, object] = {}  # the usage reported so far
        self._told_at = 0  # `received` at the last counts: later output is in none of them
        self._most_told = (0, 0, ZERO)  # tokens of input and of output, and USD, of all reports
        self._tier = ""  # of service
        self._mends: dict[str, None] = {}
        self._cost: Decimal | None = None  # the provider's own price

    @abstractmethod
    def feed(self, event: Mapping[str, object], out: list[Delta]) -> None:
        """Take one event; append its deltas."""

    @abstractmethod
    def whole(self, body: Mapping[str, object], out: list[Delta]) -> None:
        """Take a reply that came in one piece."""

    @property
    def least_tokens(self) -> int:
        """The fewest tokens that the output so far can have: none holds two words, and few many characters."""
        words, characters = (shown - shown // self._summary for shown in (self._thought_words, self._thought))
        full = self.received - self._blanks // 2 - characters  # a token of spaces is twice as long
        return max(self._words - words, full // MAX_TOKEN_CHARACTERS)

    def failed(self, event: Mapping[str, object], out: list[Delta]) -> None:
        """Take the usage in an error, because earlier output is billed. Earlier reports stay."""
        usage = self._untold(as_object(event.get("usage") or event.get("usageMetadata")))
        if any(map(count_of, usage.values())):
            self._bill(usage, out)

    def _untold(self, usage: Mapping[str, object]) -> Mapping[str, object]:
        """Return the counts of a report that no earlier one had."""
        return {name: value for name, value in usage.items() if not self._usage.get(name)}

    def failed_late(self, message: str) -> None:
        """Take an error after the end of the reply, which is paid for. A filter's error withdraws the text."""
        if _TAKES_BACK.search(message):
            self._stop = "content_filter"

    def report_unshown(self, min_bytes: int = 1) -> list[Delta]:
        """Report new unshown output, if it has at least a number of bytes."""
        if (more := self.unshown - self._reported) < min_bytes:
            return []
        self._reported = self.unshown
        return [Billed(self._stated, more)]

    def finish(self, out: list[Delta]) -> None:
        """Emit held-back text at the end."""
        for kind in tuple(self._halved):
            self._replace_half(kind, out)

    def done(self) -> None:
        """Take the `[DONE]` that gateways append: it ends the stream if the reply may end here."""
        self.closed = self.complete

    @abstractmethod
    def message(self) -> Message:
        """Return the finished message."""

    @abstractmethod
    def charges(self) -> tuple[Charge, ...]:
        """Return the cost of the answer; empty if the provider reported none."""

    def usage(self) -> Usage | None:
        """Return the executor's own share; None if the provider reported nothing."""
        charges = self.charges()
        return charges[0].usage if charges else None

    def bill(self, max_input: int) -> tuple[Usage, tuple[Charge, ...]]:
        """Return the executor's own share, and the charges: estimated from bytes and from `max_input` tokens if the
        provider did not report them, or only a part or implausible ones, unless it stated its price at the end."""
        usage, charges = self.usage() or Usage(), self.charges() or (Charge(self._origin.model, Usage()),)
        stated = sum((charge.usage for charge in charges), Usage())
        received = max(self.received, bool(self.message().parts))
        can_be = _MAX_WORDS_PER_TOKEN * stated.output + _FREE_WORDS >= self.least_tokens
        counted = can_be and is_count(stated, received, max_input) and _can_be(self._usage) and self._is_final(stated)
        named = [charge.usd for charge in charges if charge.usd is not None]
        told = counted or (named and self._told_at == self.received)
        if told and (not named or total(named) >= self._most_told[2]):
            return usage, charges
        output = max(0, self.received // 4 - stated.output)
        guess = Usage(input=0 if stated.total_input else max_input // 4, output=output)
        charges = (replace(charges[0], usage=charges[0].usage + guess), *charges[1:])
        return usage + guess, tuple(replace(charge, estimated=True) for charge in charges)

    def _is_final(self, stated: Usage) -> bool:
        """Return True if the last counts are of the whole reply: they came after all of it, include the uncached input,
        and are no smaller than earlier ones."""
        named = any(name in self._usage for name in _INPUT_COUNTS)
        shrunk = stated.total_input < self._most_told[0] or stated.output < self._most_told[1]
        return named and not shrunk and self._told_at == self.received

    def notes(self) -> tuple[str, ...]:
        """Return notes for a person."""
        return ()

    @property
    def mends(self) -> tuple[str, ...]:
        """Repairs made while parsing arguments that were not quite JSON; available after the message was built."""
        return tuple(self._mends)

    def _parsed(self, name: str, raw: str) -> tuple[JsonObject, str | None]:
        """Parse arguments, and record repairs."""
        arguments, malformed, mends = mend_arguments(raw)
        self._mends.update((f"the JSON that {name} was called with was read {mend}", None) for mend in mends)
        return arguments, malformed

    def advice(self) -> tuple[Advice, ...]:
        """Return the answers of advisors that the provider asked itself; few families have them."""
        return ()

    def _show(self, part: TextPart | ThinkingPart, pieces: list[str], out: list[Delta]) -> None:
        """Take a piece of text or thinking. Each delta is valid Unicode: half of a surrogate pair waits for the other
        half, in the next piece of the same text."""
        if not part.text:
            return
        kind, half = type(part), ""
        if self._halved.get(kind) is pieces:
            half = pieces.pop()
            del self._halved[kind]
        elif kind in self._halved:  # another text has begun
            self._replace_half(kind, out)
        text, left = whole_text(half + part.text)
        pieces += filter(None, (text, left))
        if left:
            self._halved[kind] = pieces
        if text:
            self._show_whole(kind(text), out)

    def _replace_half(self, kind: type[TextPart | ThinkingPart], out: list[Delta]) -> None:
        self._halved.pop(kind)[-1] = LONE
        self._show_whole(kind(LONE), out)

    def _show_whole(self, part: TextPart | ThinkingPart, out: list[Delta]) -> None:
        before = self._words
        self._measure(part.text)
        if isinstance(part, ThinkingPart):
            self._thought += len(part.text)
            self._thought_words += self._words - before
        out.append(part)

    def _count(self, piece: str) -> None:
        """Count unshown output."""
        self.unshown += len(piece.encode("utf-8", "replace"))
        self._measure(piece)

    def _measure(self, piece: str) -> None:
        """Count output; a word may come in pieces."""
        if piece:
            self.received += len(piece)
            words = piece.split()
            self._words += len(words) - (self._in_word and not piece[0].isspace())
            self._blanks += len(piece) - sum(map(len, words))
            self._in_word = not piece[-1].isspace()

    def _bound(self, parts: Sized) -> None:
        """Reject an endless answer of empty parts."""
        if len(parts) > MAX_PARTS:
            raise self._origin.hopeless(f"its answer has more than {MAX_PARTS:,} parts")

    def _bill(self, usage: object, out: list[Delta]) -> None:
        """Take newer counts. They only grow: null or 0, with which some gateways end, takes nothing back."""
        reported = {name: value for name, value in as_object(usage).items() if value is not None}
        if reported and self.received > self._told_at:
            self._usage.pop("cost", None)  # a price only covers the output until then
        self._usage.update((name, value) for name, value in reported.items() if value or name not in self._usage)
        if reported and (charges := self.charges()):
            told, usd = sum((charge.usage for charge in charges), Usage()), total(each.usd or ZERO for each in charges)
            self._told_at = self.received
            self._most_told = tuple(map(max, self._most_told, (told.total_input, told.output, usd)))
            sure = self.counts_first and self._is_final(told)
            self._stated = tuple(replace(charge, estimated=not sure) for charge in charges)
            out.append(Billed(self._stated))

    def _assembled(self, parts: Sequence[Part], stop: StopReason) -> Message:
        """Return the message; a reply that ended with calls has ended for them."""
        if stop == "end" and any(isinstance(part, ToolCall) for part in parts):
            stop = "tool_use"
        model = f"{self._origin.provider}/{self._origin.model}"
        message = Message("assistant", tuple(parts), model=model, stop=stop)
        message = message if self.naming is None else self.naming.original(message)
        return message if self.deferral is None else self.deferral.original(message)

    def _private(self, data: Mapping[str, object]) -> Private:
        return Private(self._family, json_freeze(data))


def stop_of(reason: str, known: Mapping[str, StopReason]) -> StopReason:
    """Return why a reply ended. Gateways pass on words of other families: an unknown word is interpreted by its
    meaning, because a cut or withdrawn reply is not whole."""
    told: list[StopReason] = [each for each, words in _SAYING.items() if re.search(words, reason, re.IGNORECASE)]
    return known.get(reason) or known.get(reason.lower()) or (told[0] if told else "end")


def stop_at(word: object, known: Container[str]) -> str:
    """Return why a reply ended for a server that reports the stopping word: a stop sequence, "" for a model's own mark
    or none. A number is a token of the model's, and a `known` word is a reason itself."""
    said = as_str(word)
    return said if said.lower() in known or not said else "" if _OWN_END.fullmatch(said) else "stop_sequence"


def lasting(before: str, reason: str, known: Mapping[str, StopReason]) -> str:
    """Return the stronger of two reasons. Gateways append their own: a cut or withdrawn reply stays so."""
    return max(reason, before, key=lambda each: _BAD.get(stop_of(each, known), 0))


def count_of(value: object) -> int:
    """Return a reported number of tokens, or of uses of a tool; an impossible one counts as none."""
    return min(max(0, _count(value)), _MAX_CALL_TOKENS)


def _count(value: object) -> int:
    if isinstance(value, str):
        return int(value[:20]) if value.isascii() and value.isdecimal() else -1
    return as_int(value, -1)


def _can_be(usage: object) -> bool:
    """Return True if every token count of a report is possible: -5, NaN or true make all of it doubtful."""
    for name, value in as_object(usage).items():
        tokens = name.lower().endswith(("tokens", "tokencount"))
        for item in as_array(value) or (value,):
            if not _can_be(item) or (tokens and isinstance(item, str | int | float) and _count(item) < 0):
                return False
    return True
