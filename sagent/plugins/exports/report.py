"""A run for a person to read: turn by turn, with permissions, advice and cost."""

from collections.abc import Iterable, Iterator
from dataclasses import field
from decimal import Decimal
from typing import assert_never

from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_str
from sagent.lib.money import UNBILLED
from sagent.lib.text import count, cut
from sagent.plugins.exports.steps import (
    Answered,
    Charged,
    Checkout,
    Consulted,
    Damaged,
    Ended,
    Judged,
    MessageStep,
    Opened,
    Refused,
    Remark,
    Requested,
    Step,
    Turn,
)
from sagent.plugins.exports.times import seconds_between
from sagent.session.contents import AdviceRated, StoredCall
from sagent.transcript.redaction import SEARCHED_CHARS, Redaction
from sagent.usage import Charge, Sum, Usage

ROOT = "root"
BRIEF = 12  # lines of a text to show
MAX_ARGUMENT_CHARS = 100  # characters of a call's arguments to show
_LEFT_OUT = ("sent", "files rewound")  # remarks that are not shown
_DETAILS = {"spawned": ("agent",), "job": ("job", "state")}  # for remarks with only some details


@dataclass(slots=True)
class Report:
    """The lines of a run, step by step, redacted by `redaction`. `lines` of a text are shown, None is all of them."""

    lines: int | None = BRIEF
    redaction: Redaction = field(default_factory=Redaction)
    damaged: list[str] = field(default_factory=list[str])
    steps: int = 0
    _turns: dict[str, int] = field(default_factory=dict[str, int])
    _roles: dict[str, Sum] = field(default_factory=dict[str, Sum])
    _refused: set[str] = field(default_factory=set[str])
    _withheld: int = 0
    _begun: str = ""
    _sessions: set[str] = field(default_factory=set[str])
    _ended: Ended | None = None

    def show(self, steps: Iterable[Step]) -> Iterator[str]:
        """Yield every line, the summary last. They contain texts of models and files: make them safe to print."""
        for step in steps:
            self.steps += not isinstance(step, Damaged)
            yield from self._step(step)
        yield from self._summary()

    def _step(self, step: Step) -> Iterator[str]:  # noqa: C901 -- one arm for each class of the union
        match step:
            case Opened():
                yield from self._opened(step)
            case MessageStep(agent, text, sender):
                if text:
                    who = f"{_who(agent)}{sender}: " if sender else _who(agent)
                    yield ""
                    yield from self._text(text, f"> {who}", "> ")
            case Turn():
                yield from self._turn(step)
            case Answered():
                if step.call not in self._refused:  # shown already
                    yield from self._answered(step)
            case Refused(agent, call, name, reason):
                self._refused.add(call)
                yield f"  ⊘ {_who(agent)}{name} denied: {self._line(reason)}"
            case Consulted():
                yield from self._consulted(step)
            case Judged(agent, judgement):
                reason = "" if isinstance(judgement, AdviceRated) else self._line(judgement.reason)
                yield f"  ◆ {_who(agent)}{' · '.join(filter(None, (judgement.advisor, judgement.outcome, reason)))}"
            case Charged(agent, charge, at_once):
                self._roles.setdefault(charge.role or "executor", Sum()).add(charge)
                if at_once:
                    yield f"    {_who(agent)}{_role(charge)}{_tokens(charge.usage)}{_price(charge.usd)}"
            case Remark():
                if step.kind not in _LEFT_OUT:
                    yield f"  ! {_who(step.agent)}{self._line(_remark(step))}"
            case Ended():
                yield from self._end(step)
            case Damaged(line, reason, place):
                where = f"{place}, line {line}" if place else f"line {line}"
                self.damaged.append(where)
                yield f"  ! {where} is left out: {self._line(reason)}"
            case Checkout() | Requested():
                pass
            case _:
                assert_never(step)

    def _opened(self, step: Opened) -> Iterator[str]:
        if step.agent != ROOT:
            return
        if self._begun:
            yield ""
        self._sessions.add(step.session)
        self._begun = self._begun or step.at
        if not step.resumed:
            self._turns.clear()
        when = step.at[:19].replace("T", " ")
        parts = [step.session, "resumed" if step.resumed else "", step.model, step.cwd, when]
        yield "session " + " · ".join(filter(None, parts))

    def _turn(self, step: Turn) -> Iterator[str]:
        number = self._turns[step.agent] = self._turns.get(step.agent, 0) + 1
        parts = [f"{_who(step.agent)}turn {number}", step.model, self._since(step.at)]
        if step.stop not in ("", "end", "tool_use"):
            parts.append(step.stop)
        yield ""
        yield " · ".join(filter(None, parts))
        yield from self._text(step.text, "  ", "  ")
        for call in step.calls:
            yield f"  ● {call.name} {self._arguments(call)}"

    def _answered(self, step: Answered) -> Iterator[str]:
        mark = "✗" if step.failed else "│"
        took = f" ({step.seconds:.1f} s)" if step.seconds >= 0.1 else ""
        yield f"  {mark} {_who(step.agent)}{step.name}: {self._line(step.what) or 'no output'}{took}"

    def _consulted(self, step: Consulted) -> Iterator[str]:
        advice = step.advice
        self._withheld += advice.status == "withheld"
        who = f"{_who(step.agent)}{advice.advisor or 'advisor'}"
        parts = [f"{who} ({advice.model})" if advice.model else who, advice.trigger, advice.verdict or advice.status]
        parts += [self._line(advice.reason), f"{advice.seconds:.1f} s" if advice.seconds else ""]
        yield f"  {'◇' if advice.status == 'withheld' else '◆'} " + " · ".join(filter(None, parts))
        if advice.question:
            yield f"    ? {self._line(advice.question)}"
        yield from self._text(advice.text, "    │ ", "    │ ")

    def _end(self, step: Ended) -> Iterator[str]:
        if step.agent == ROOT:
            self._ended = step
        parts = [f"{_who(step.agent)}ended: {step.stop}", self._line(step.error)]
        parts += [count(step.turns, "turn"), f"{step.seconds:.1f} s"]
        yield ""
        yield " · ".join(filter(None, parts))

    def _summary(self) -> Iterator[str]:
        if not self.steps:
            return
        yield ""
        checks = [f"{count(len(self._refused), 'call')} denied"] if self._refused else []
        checks += [f"{count(self._withheld, 'consultation')} withheld"] if self._withheld else []
        if checks:
            yield "policy  " + ", ".join(checks)
        for role, sums in sorted(self._roles.items(), key=lambda item: (item[0] != "executor", item[0])):
            later = sums.unpriced and self._ended is not None and not self._ended.unpriced  # known only at the end
            usd = "" if later else f", {_sum(sums.usd, sums.unpriced)}"
            yield f"{role}  {count(sums.charges, 'call')}, {_tokens(sums.usage)}{usd}"
        unbilled = Decimal(0)
        if self._ended is not None and "total" in self._ended.usd and len(self._sessions) < 2:
            unbilled = self._ended.usd.get("unbilled", unbilled)
            kinds = [f"{kind} {_usd(self._ended.usd[kind])}" for kind in ("executor", "advisor", "other")
                     if self._ended.usd.get(kind)]  # fmt: skip
            unpriced = f"; no known price: {', '.join(self._ended.unpriced)}" if self._ended.unpriced else ""
            atleast = "at least " if unpriced else ""
            split = f" ({', '.join(kinds)})" if len(kinds) > 1 else ""
            yield f"cost  {atleast}{_usd(self._ended.usd['total'])}{split}{unpriced}"
        elif self._roles:
            usd = sum((sums.usd for sums in self._roles.values()), Decimal(0))
            yield f"cost  {_sum(usd, sum(sums.unpriced for sums in self._roles.values()))}"
            unbilled = sum((sums.unbilled for sums in self._roles.values()), Decimal(0))
        if unbilled:
            yield f"      {_usd(unbilled)} more count towards a budget ({UNBILLED})"

    def _line(self, text: str) -> str:
        """Return a text in one line that fits a screen."""
        return self.redaction.line(text, 2 * MAX_ARGUMENT_CHARS)

    def _arguments(self, call: StoredCall) -> str:
        long, text = len(call.arguments) > SEARCHED_CHARS, call.arguments[:SEARCHED_CHARS]
        text = self.redaction.text(text) if long else as_str(self.redaction.value(text, "arguments"))
        return cut(text, MAX_ARGUMENT_CHARS)

    def _text(self, text: str, first: str, other: str) -> Iterator[str]:
        lines = text.strip("\n").splitlines() if text.strip() else []
        if self.lines is not None:  # only one line, as much as a screen shows
            lines = [line for line in lines if line.strip()]
        shown = lines if self.lines is None else [line[:SEARCHED_CHARS] for line in lines[: self.lines]]
        more = len(lines) - len(shown)
        shown = self.redaction.text("\n".join(shown)).split("\n")
        for number, line in enumerate(shown if lines else ()):
            yield (other if number else first) + (line if self.lines is None else cut(line, 2 * MAX_ARGUMENT_CHARS))
        if more:
            yield f"{other}… {more} more lines (--full)"

    def _since(self, at: str) -> str:
        since = seconds_between(self._begun, at)
        return "" if since is None else f"+{since:.1f} s"


def _who(agent: str) -> str:
    return "" if agent == ROOT else f"{agent} "


def _remark(step: Remark) -> str:
    names = _DETAILS.get(step.kind)
    words = ", ".join(value for name, value in step.details if value and (names is None or name in names))
    return f"{step.kind}: {words}" if words else step.kind


def _role(charge: Charge) -> str:
    return "" if charge.role in ("", "executor") else f"{charge.role}: "


def _tokens(usage: Usage) -> str:
    return f"{usage.total_input} tokens in, {usage.output} out"


def _usd(usd: Decimal) -> str:
    return f"${usd:.6f}"


def _price(usd: Decimal | None) -> str:
    """Format a price; "" if it is unknown: an event may come before its price."""
    return "" if usd is None else f", {_usd(usd)}"


def _sum(usd: Decimal, unknown: int) -> str:
    return _usd(usd) + (f" and {count(unknown, 'call')} of unknown price" if unknown else "")
