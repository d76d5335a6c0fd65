"""Providers that report no usage, a part of it, or nonsense: a budget may not be passed with any.

The provider bills a token for each byte that it is sent or sends, and reports that as it likes.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, cast

from sagent.lib.json import as_object
from sagent.testing.families import FAMILIES as FORMATS
from sagent.testing.families import Answer
from sagent.testing.server import Call, Raw, Received, Step, Turn, Usage
from tests.attack.plans import Attempt
from tests.attack.program import FAMILIES, Program
from tests.forks import Forks

Change: TypeAlias = Callable[
    [str, object], object
]  # what is reported in place of a count, by its name; None leaves it out

_BUDGET, _INPUT, _OUTPUT = 1.0, 10, 50  # USD; USD for a million tokens
_SAID = "word " * 600
_PRICE = 3e-3  # USD, said of calls that cost much more
_CALLS = (Call("Bash", {"command": "true"}),)
_SPAWNS = tuple(Call("AgentSpawn", {"prompt": f"go {number}"}) for number in range(4))
_USAGE = ("usage", "usageMetadata")
_OUT, _IN = ("output", "completion", "candidates", "thoughts", "total"), ("input", "prompt", "cache", "total")


def _without(names: Sequence[str]) -> Change:
    return lambda name, count: None if any(part in name.lower() for part in names) else count


_KINDS: Mapping[str, Change | None] = {
    "nothing": None,
    "zero": lambda _, count: 0,
    "zero output": lambda name, count: 0 if any(part in name.lower() for part in _OUT) else count,
    "no output": _without(_OUT),
    "no input": _without(_IN),
    "no counts": lambda _, count: None,
    "null": lambda _, count: "null",
    "negative": lambda _, count: -1,
    "a negative output": lambda name, count: -5_000 if any(part in name.lower() for part in _OUT[:-1]) else count,
    "words": lambda _, count: "many",
    "lists": lambda _, count: [],
    "true": lambda _, count: True,
    "less than one": lambda _, count: 0.001,
    "not a number": lambda _, count: float("nan"),
    "an infinite number": lambda _, count: float("inf"),
    "a small text": lambda _, count: "7",
    "an object": lambda _, count: {"tokens": count},
    "a list of it": lambda _, count: [count],
    "a price at the start": None,
    "a price that falls": None,
}


def _reported(value: object, change: Change | None, *, within: bool = False) -> object:
    match value:
        case dict():
            found: dict[str, object] = {}
            for key, member in cast("Mapping[str, object]", value).items():
                inner = within or key in _USAGE
                if inner and not within and change is None:
                    continue
                if inner and change is not None and isinstance(member, int):
                    if (said := change(key, member)) is not None:
                        found[key] = None if said == "null" else said
                    continue
                found[key] = _reported(member, change, within=inner)
            return found
        case list():
            return [_reported(each, change, within=within) for each in cast("list[object]", value)]
        case _:
            return value


def _limit(received: Received) -> int:
    """Return the most tokens that a request lets the provider answer with."""
    inner = (received.json.get(name) for name in ("generationConfig", "inferenceConfig"))
    sent = {name: value for each in (received.json, *map(as_object, inner)) for name, value in each.items()}
    names = ("max_output_tokens", "max_completion_tokens", "max_tokens", "maxOutputTokens", "maxTokens")
    return next((value for name in names if isinstance(value := sent.get(name), int)), 10**9)


class _Seller:
    """A provider that bills by bytes."""

    def __init__(self, kind: str, calls: Sequence[Call]) -> None:
        self.billed, self.replies = 0.0, 0
        self._change, self._calls, self._kind = _KINDS[kind], calls, kind

    def answer(self, received: Received) -> Step:
        limit = _limit(received)
        written = sum(len(json.dumps(call.arguments)) + len(call.name) for call in self._calls)
        whole = limit >= written + len(_SAID)
        turn = Turn(text=_SAID[:limit], calls=self._calls) if whole else Turn(text=_SAID[:limit], stop="max_tokens")
        spent = Usage(input=len(received.body), output=min(limit, len(_SAID) + written))
        self.replies += 1
        self.billed += (spent.input * _INPUT + spent.output * _OUTPUT) / 1e6
        answer = Answer.of(
            Turn(text=turn.text, calls=turn.calls, stop=turn.stop, usage=spent),
            received,
            serial=self.replies,
            bill="script",
        )
        if received.family == "converse":  # whose frames have sums
            return Turn(text=turn.text, calls=turn.calls, stop=turn.stop, usage=Usage())
        rendered = FORMATS[received.family].render(answer)
        if isinstance(rendered, bytes):
            return Raw(200, (("content-type", "application/json"),), self._edited(rendered))
        lines = b"".join(rendered).split(b"\n")
        stream = [b"data: " + self._edited(line[6:]) if line.startswith(b"data: {") else line for line in lines]
        if "price" in self._kind:
            self._tell_price(stream, spent)
        return Raw(200, (("content-type", "text/event-stream"),), b"\n".join(stream))

    def _tell_price(self, stream: list[bytes], spent: Usage) -> None:
        """Put a report before the first word, with a price that is far too low, or that the last one falls to."""
        falls = "falls" in self._kind
        names = ("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens")
        events = [at for at, line in enumerate(stream) if line.startswith(b"data: {")]
        for at, price in ((events[0], 0.5), (events[-1], _PRICE)) if falls else ((events[0], _PRICE),):
            event = json.loads(stream[at][6:])
            told = {**dict.fromkeys(names[0], spent.input), **dict.fromkeys(names[1], 1), "cost": price}
            event.get("message", event)["usage"] = told
            stream[at] = b"data: " + json.dumps(event).encode()

    def _edited(self, data: bytes) -> bytes:
        return json.dumps(_reported(json.loads(data), self._change)).encode()


def _attempt(family: str, kind: str, calls: Sequence[Call], words: str) -> Attempt:
    def effects(base: Path, forks: Forks) -> Sequence[str]:
        program, seller = Program(base, forks, family), _Seller(kind, calls)
        program.configure(f'[prices."{FAMILIES[family][0]}"]\ninput = {_INPUT}\noutput = {_OUTPUT}\n')
        for more in ((), ("--continue",)):
            program.run(seller.answer, "go", "--tools", "Bash,AgentSpawn", "--max-budget-usd", str(_BUDGET), *more)
        passed = [f"{seller.billed:.2f} of {_BUDGET} USD were spent"] if seller.billed > _BUDGET else []
        return [*passed, *(["the provider was never asked"] if not seller.replies else [])]

    return Attempt(f"budget, {family}: usage with {kind}, {words}", effects)


ATTEMPTS = (
    *(_attempt(family, kind, _CALLS, "a call each") for family in FAMILIES if family != "converse" for kind in _KINDS),
    *(
        _attempt(family, kind, _SPAWNS, "four children each")
        for family in list(FAMILIES)[:-1]
        for kind in ("nothing", "zero")
    ),
    _attempt("converse", "zero", _CALLS, "a call each"),
)
CONTROLS = ()
