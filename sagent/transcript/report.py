"""A run for a person to read: turn by turn, what was allowed and what was advised, and what it cost."""

from collections.abc import Iterable, Iterator
from dataclasses import field
from datetime import datetime
from decimal import Decimal
from typing import assert_never

from sagent.lib.dataclass import dataclass
from sagent.transcript.steps import (
    Answered,
    Asked,
    Charged,
    Consulted,
    Damaged,
    Ended,
    Opened,
    Refused,
    Remark,
    Said,
    Step,
    Turn,
)

ROOT = "root"
BRIEF = 12  # lines of a text that are shown
WIDTH = 100  # characters of a call's arguments that are shown


@dataclass(slots=True)
class Sums:
    """What one role has done. `unknown` counts calls without a known price."""

    calls: int = 0
    read: int = 0
    written: int = 0
    usd: Decimal = Decimal(0)
    unknown: int = 0

    def add(self, charge: Charged) -> None:
        """Count a charge."""
        self.calls += 1
        self.read += charge.read
        self.written += charge.written
        self.usd += charge.usd or Decimal(0)
        self.unknown += charge.usd is None


@dataclass(slots=True)
class Report:
    """The lines of a run, one step after the other. `lines` of a text are shown, None is all of them."""

    lines: int | None = BRIEF
    damaged: list[str] = field(default_factory=list[str])
    steps: int = 0
    _turns: dict[str, int] = field(default_factory=dict[str, int])
    _roles: dict[str, Sums] = field(default_factory=dict[str, Sums])
    _refused: set[str] = field(default_factory=set[str])
    _withheld: int = 0
    _begun: str = ""
    _ended: Ended | None = None

    def tell(self, steps: Iterable[Step]) -> Iterator[str]:
        """Every line, the summary last. They may hold whatever a model or a file says: make them safe to print."""
        for step in steps:
            self.steps += not isinstance(step, Damaged)
            yield from self._step(step)
        yield from self._summary()

    def _step(self, step: Step) -> Iterator[str]:  # noqa: C901 -- one arm for each class of the union
        match step:
            case Opened():
                yield from self._opened(step)
            case Said(agent, text, sender):
                who = f"{_who(agent)}{sender}: " if sender else _who(agent)
                yield ""
                yield from self._text(text, f"> {who}", "> ")
            case Turn():
                yield from self._turn(step)
            case Answered():
                if step.call not in self._refused:  # told already
                    yield from self._answered(step)
            case Refused(agent, call, name, reason):
                self._refused.add(call)
                yield f"  ⊘ {_who(agent)}{name} denied: {_line(reason)}"
            case Consulted():
                yield from self._consulted(step)
            case Charged():
                self._roles.setdefault(step.role or "executor", Sums()).add(step)
                if step.at_once:
                    yield f"    {_who(step.agent)}{_role(step)}{_tokens(step.read, step.written)}{_price(step.usd)}"
            case Remark(agent, text):
                yield f"  ! {_who(agent)}{_line(text)}"
            case Ended():
                yield from self._end(step)
            case Damaged(line, reason, place):
                where = f"{place}, line {line}" if place else f"line {line}"
                self.damaged.append(where)
                yield f"  ! {where} is left out: {_line(reason)}"
            case _:
                assert_never(step)

    def _opened(self, step: Opened) -> Iterator[str]:
        if step.agent != ROOT:
            return
        if self._begun:
            yield ""
        self._begun = self._begun or step.at
        if not step.resumed:
            self._turns.clear()
        when = step.at[:19].replace("T", " ")
        told = [step.session, "resumed" if step.resumed else "", step.model, step.cwd, when]
        yield "session " + " · ".join(part for part in told if part)

    def _turn(self, step: Turn) -> Iterator[str]:
        number = self._turns[step.agent] = self._turns.get(step.agent, 0) + 1
        told = [f"{_who(step.agent)}turn {number}", step.model, self._since(step.at)]
        if step.stop not in ("", "end", "tool_use"):
            told.append(step.stop)
        yield ""
        yield " · ".join(part for part in told if part)
        yield from self._text(step.text, "  ", "  ")
        for call in step.calls:
            yield f"  ⏺ {call.name} {_arguments(call)}"

    def _answered(self, step: Answered) -> Iterator[str]:
        mark = "✗" if step.failed else "⎿"
        took = f" ({step.seconds:.1f} s)" if step.seconds >= 0.1 else ""
        yield f"  {mark} {_who(step.agent)}{step.name}: {_line(step.what) or 'no output'}{took}"

    def _consulted(self, step: Consulted) -> Iterator[str]:
        self._withheld += step.status == "withheld"
        told = [f"{_who(step.agent)}{step.advisor}" + (f" ({step.model})" if step.model else ""), step.trigger]
        told += [step.verdict or step.status, _line(step.reason), f"{step.seconds:.1f} s" if step.seconds else ""]
        yield f"  {'◇' if step.status == 'withheld' else '◆'} " + " · ".join(part for part in told if part)
        if step.question:
            yield f"    ? {_line(step.question)}"
        yield from self._text(step.text, "    │ ", "    │ ")

    def _end(self, step: Ended) -> Iterator[str]:
        if step.agent == ROOT:
            self._ended = step
        told = [f"{_who(step.agent)}ended: {step.stop}", _line(step.error)]
        told += [_count(step.turns, "turn"), f"{step.seconds:.1f} s"]
        yield ""
        yield " · ".join(part for part in told if part)

    def _summary(self) -> Iterator[str]:
        if not self.steps:
            return
        yield ""
        checks = [f"{_count(len(self._refused), 'call')} denied"] if self._refused else []
        checks += [f"{_count(self._withheld, 'consultation')} withheld"] if self._withheld else []
        if checks:
            yield "policy  " + ", ".join(checks)
        for role, sums in sorted(self._roles.items(), key=lambda item: (item[0] != "executor", item[0])):
            calls = _count(sums.calls, "call")
            later = sums.unknown and self._ended is not None and not self._ended.unpriced  # told at the end alone
            usd = "" if later else f", {_sum(sums.usd, sums.unknown)}"
            yield f"{role}  {calls}, {_tokens(sums.read, sums.written)}{usd}"
        if self._ended is not None and "total" in self._ended.usd:
            kinds = [f"{kind} {_usd(self._ended.usd[kind])}" for kind in ("executor", "advisor", "other")
                     if self._ended.usd.get(kind)]  # fmt: skip
            unpriced = f"; no known price: {', '.join(self._ended.unpriced)}" if self._ended.unpriced else ""
            atleast = "at least " if unpriced else ""
            split = f" ({', '.join(kinds)})" if len(kinds) > 1 else ""
            yield f"cost  {atleast}{_usd(self._ended.usd['total'])}{split}{unpriced}"
        elif self._roles:
            usd = sum((sums.usd for sums in self._roles.values()), Decimal(0))
            yield f"cost  {_sum(usd, sum(sums.unknown for sums in self._roles.values()))}"

    def _text(self, text: str, first: str, other: str) -> Iterator[str]:
        lines = text.strip("\n").splitlines() if text.strip() else []
        shown = lines if self.lines is None else lines[: self.lines]
        for number, line in enumerate(shown):
            yield (other if number else first) + line
        if len(shown) < len(lines):
            yield f"{other}… {len(lines) - len(shown)} more lines (--full)"

    def _since(self, at: str) -> str:
        try:
            return f"+{(datetime.fromisoformat(at) - datetime.fromisoformat(self._begun)).total_seconds():.1f} s"
        except (ValueError, TypeError):
            return ""


def _who(agent: str) -> str:
    return "" if agent == ROOT else f"{agent} "


def _role(step: Charged) -> str:
    return "" if step.role in ("", "executor") else f"{step.role}: "


def _tokens(read: int, written: int) -> str:
    return f"{read} tokens in, {written} out"


def _usd(usd: Decimal) -> str:
    return f"{usd:.6f} USD"


def _price(usd: Decimal | None) -> str:
    """Nothing where it is not known: an event may come before its price."""
    return "" if usd is None else f", {_usd(usd)}"


def _sum(usd: Decimal, unknown: int) -> str:
    return f"{usd:.6f} USD" + (f" and {_count(unknown, 'call')} of unknown price" if unknown else "")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _line(text: str) -> str:
    """A text in one line that fits a screen."""
    line = " ".join(text.split())
    return line if len(line) <= 2 * WIDTH else line[: 2 * WIDTH - 1] + "…"


def _arguments(call: Asked) -> str:
    return call.arguments if len(call.arguments) <= WIDTH else call.arguments[: WIDTH - 1] + "…"
