"""What compactions are said to save, against a twin: the same session without any, at a provider that keeps a cache."""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import pytest

from sagent import tools
from sagent.agent import Agent, Resources, RunLimits
from sagent.context.compaction import HEADINGS
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.lib.json import as_array, as_object, json_dump
from sagent.messages import Message, Text, ToolResult, user
from sagent.model import ModelLimits, Provider
from sagent.peer import Compact, SpawnRequest, Switch
from sagent.plugins.audit.savings import INSTRUCTION_TOKENS, Savings, add_savings
from sagent.providers import Anthropic, OpenAICompatible
from sagent.session.contents import COMPACTOR, ChargeEntry, Compacted, Content, MessageEntry, RequestSent, StoredMessage
from sagent.session.folds import charges, history
from sagent.session.log import MemoryLog, read_log
from sagent.session.store import Session, named_logs
from sagent.testing.server import Call, FakeProviderServer, Received, Turn, Usage
from sagent.tool import Workspace
from sagent.usage import Charge, Saving
from tests.depth import later

SUMMARY = "\n".join(f"## {heading}\nsomething that matters here" for heading in HEADINGS)
SYSTEM = "You are careful. " * 400
RATES = {"input": "1.25", "cache_read": "0.125", "output": "10"}
PRICES = PriceBook({"openai-compatible/gpt-x": RATES})
WINDOW, SMALL = ModelLimits(20_000, 2_000), ModelLimits(12_000, 2_000)
NAMES = ("type", "role", "name", "id", "tool_use_id", "tool_call_id")
WORDS = ("alpha", "beta", "delta", "request", "connection", "pool", "result", "of", "the", "and", "to", "value")


@lru_cache(maxsize=100_000)
def count(text: str) -> int:
    """Tokens: prose has few to a byte, code many."""
    return sum(1 + len(word) // 6 for word in re.findall(r"\w+|[^\w\s]", text))


class Caching:
    """A provider that reads from its cache what earlier requests began with. With `writes`, by Anthropic's rules: a
    request is written up to its last mark; else all of it is, free of charge, and read in units of 128 tokens."""

    def __init__(self, *, writes: bool, words: int) -> None:
        self.writes, self.words = writes, words
        self.caches: dict[object, set[int]] = {}  # by model
        self.asked = self.summed = 0

    def answer(self, request: Received) -> Turn:
        last = json_dump(as_array(request.json["messages"])[-1])
        summary = "This is from sagent" in last
        self.summed += summary
        self.asked += not summary
        if summary:
            return Turn(text=SUMMARY, pieces=0, usage=self.bill(request, count(SUMMARY)))
        said = " ".join(random.Random(self.asked).choices(WORDS, k=self.words))
        path = f"{self.asked}.txt"
        calls = () if self.asked % 8 == 0 or "briefly" in last else (Call("Read", {"file_path": path}),)
        return Turn(text=said, calls=calls, pieces=0, usage=self.bill(request, count(said) + 4 + 8 * len(calls)))

    def bill(self, request: Received, output: int) -> Usage:
        total, mark, seen = 0, 0, 0
        ends, known = dict[int, int](), self.caches.setdefault(request.json["model"], set())
        for block in blocks(request):
            plain = {key: value for key, value in block.items() if key != "cache_control"}
            total, seen = total + 4 + sum(map(count, texts(plain))), hash((seen, json_dump(plain)))
            ends[seen] = total
            mark = total if len(plain) < len(block) else mark
        stored = mark if self.writes else total
        read = max((size for name, size in ends.items() if name in known and 1_024 <= size <= stored), default=0)
        known |= {name for name, size in ends.items() if size <= stored}
        if self.writes:
            return Usage(input=total - mark, cache_read=read, cache_write=mark - read, output=output)
        read -= read % 128
        return Usage(input=total - read, cache_read=read, output=output)


def blocks(request: Received) -> Iterator[Mapping[str, object]]:
    """What a request says, in the order in which a model reads it."""
    for name in ("tools", "system", "messages"):
        for each in map(as_object, as_array(request.json.get(name))):
            inner = as_array(each.get("content"))
            yield from map(as_object, inner)
            yield {**each, "content": ""} if inner else each


def texts(value: object) -> Iterator[str]:
    """What of it is tokens: not names and types."""
    if isinstance(value, str):
        yield value
    inner = [each for key, each in as_object(value).items() if key not in NAMES]
    for each in (*as_array(value), *inner):
        yield from texts(each)


Prompt: TypeAlias = str | Compact | Switch | SpawnRequest


class Story:
    """One session, told with compactions or without."""

    def __init__(
        self, tmp_path: Path, *, writes: bool, words: int, compact_at: float, window: ModelLimits = WINDOW
    ) -> None:
        self.state, self.cwd, self.compact_at = tmp_path / f"state-{compact_at}", tmp_path, compact_at
        self.window = window
        self.writes = writes
        self.provider = Caching(writes=writes, words=words)
        self.server = FakeProviderServer(self.provider.answer)
        self.path: Path | None = None
        self.saving = Saving()

    async def tell(self, *runs: Sequence[Prompt]) -> None:
        """Each run is a process of its own, but for the name."""
        async with self.server:
            for prompts in runs:
                with Session.open(self.path) if self.path else Session.create(self.state, self.cwd) as session:
                    self.path = session.path
                    await self._run(session, prompts)

    async def _run(self, session: Session, prompts: Sequence[Prompt]) -> None:
        source: Provider = (
            Anthropic.from_key("k", base_url=self.server.url)
            if self.writes
            else OpenAICompatible.from_key("k", base_url=self.server.url)
        )
        log, ledger = session.log(), Ledger(None, PRICES)
        for file in named_logs(session.path):
            ledger.restore(charges(read_log(file)))
        agent = Agent(
            source.model("claude-sonnet-4-5" if self.writes else "gpt-x"),
            system=SYSTEM,
            tools=[tools.Read()],
            limits=RunLimits(compact_at=self.compact_at),
            resources=Resources(
                workspace=Workspace(self.cwd),
                log=log,
                ledger=ledger,
                model_limits=lambda _: self.window,
                resolve=lambda name: source.model(name.rpartition("/")[2]),
            ),
        )
        agent.restore(history(log.contents(), log.blobs.get))
        for prompt in prompts:
            if isinstance(prompt, SpawnRequest):
                child = await agent.spawn(prompt)
                assert (await child.wait()).error is None
            elif isinstance(prompt, str):
                result = await agent.run(prompt)
                assert result.error is None, result.error
                self.saving = result.saving
            elif self.compact_at or isinstance(prompt, Switch):
                agent.apply(prompt)
        await agent.aclose()
        await source.aclose()

    @property
    def billed(self) -> Decimal:
        name = "anthropic" if self.writes else "openai-compatible"
        prices = [PRICES.price(name, charge.model, charge.usage) for charge in self.server.charges]
        return sum((price for price in prices if price is not None), Decimal(0))

    @property
    def sent(self) -> int:
        return sum(charge.usage.total_input for charge in self.server.charges)


ASK = [f"Look at it again, part {number}, and say what changed in the connection pool." for number in range(6)]
NOW = Compact("the pool")
STUBS = pytest.param([ASK[:4]], 10, 0.8, 0, id="stubs")
BOTH = pytest.param([ASK[:4]], 300, 0.8, 1, id="stubs and summaries")
LATER = pytest.param([ASK[:1], [NOW, *ASK[1:3]], ASK[3:4]], 100, 1, 1, id="asked for in the second of three processes")
TWICE = pytest.param([[ASK[0], NOW, ASK[1], NOW, *ASK[2:4]]], 100, 1, 2, id="twice")
CHILD = pytest.param([[SpawnRequest(ASK[0]), ASK[1]], ASK[2:4]], 100, 0.35, 1, id="of a child in another process too")
LOSS = pytest.param([[ASK[0], NOW, "Now say it briefly."]], 100, 1, 1, id="that costs more than it saves")
OTHER, BACK = (Switch(model=f"anthropic/claude-{name}-4-5") for name in ("haiku", "sonnet"))
TURNS = pytest.param([[ASK[0], OTHER, ASK[1], BACK, *ASK[2:4]]], 100, 0.8, 1, id="with models in turn")
AFTER = pytest.param([[ASK[0], NOW, OTHER, *ASK[1:3]]], 100, 1, 1, id="by the model that was switched to")
RULES = (
    (STUBS, True),
    (BOTH, True),
    (BOTH, False),
    (LATER, True),
    (CHILD, True),
    (TWICE, False),
    (LOSS, True),
    (TURNS, True),
    (AFTER, True),
)


@later
@pytest.mark.costly
@pytest.mark.parametrize(
    ("window", "writes", "runs", "words", "compact_at", "summed"),
    [
        *(
            pytest.param(WINDOW, writes, *one.values, id=f"{one.id}, {'written' if writes else 'automatic'}")
            for one, writes in RULES
        ),
        pytest.param(SMALL, True, [ASK[:3]], 100, 0.8, 2, id="in a small window"),
        pytest.param(SMALL, True, *TURNS.values, id="with models in turn in a small window"),
    ],
)
async def test_saving_equals_uncompacted_twin(
    tmp_path: Path,
    window: ModelLimits,
    writes: bool,
    runs: list[list[Prompt]],
    words: int,
    compact_at: float,
    summed: int,
) -> None:
    chance = random.Random(1)
    for number in range(40):
        lines = (f"{number}: if (x[{chance.random()}] != y) {{ {chance.choice(WORDS)}(); }}" for _ in range(30))
        (tmp_path / f"{number}.txt").write_text("\n".join(lines))
    compacted = Story(tmp_path, writes=writes, words=words, compact_at=compact_at, window=window)
    twin = Story(tmp_path, writes=writes, words=words, compact_at=0)
    await compacted.tell(*runs)
    await twin.tell(*runs)
    assert twin.saving == Saving()
    told, tokens, usd = compacted.saving, twin.sent - compacted.sent, twin.billed - compacted.billed
    assert compacted.path is not None
    assert add_savings(named_logs(compacted.path), PRICES.price) == told, "as it is shown later"
    assert told.compactions
    assert compacted.provider.summed >= summed
    assert told.tokens == pytest.approx(tokens, rel=0.02)
    assert told.usd is not None
    assert float(told.usd) == pytest.approx(float(usd), rel=0.02)
    assert (usd < 0) == (runs == LOSS.values[0])


# -- by entries: 1 USD for a million tokens of input, 0.1 where they are read, 2 where they are written ----------------


def usd_of(_provider: str, model: str, usage: Usage, _at: datetime, _tier: str) -> Decimal | None:
    if model == "unpriced":
        return None
    return (10 * usage.input + usage.cache_read + 20 * (usage.cache_write + usage.cache_write_1h)) * Decimal("1e-7")


def asked(model: str = "m", input: int = 0, cache_read: int = 0, cache_write: int = 0) -> list[Content]:  # noqa: A002 -- as in Usage
    """A request of the conversation, answered with ten tokens."""
    charge = Charge(model, Usage(input, cache_read, cache_write, output=10), role="executor", provider="p")
    return [RequestSent("", 0, model), ChargeEntry(charge)]


def told_by(*steps: list[Content] | str) -> Saving:
    """What is told of a log; a step that is a name stands for what was logged last when that name came first."""
    log, named, savings = MemoryLog(), dict[str, str](), Savings(usd_of)
    last = Saving()
    for step in steps:
        if isinstance(step, list):
            for each in step:
                log.append(each)
            last = savings.follow(log.contents())
        elif step in named:
            log.fork(named[step])
        else:
            named[step] = log.head
    assert last == Savings(usd_of).follow(log.contents()), "as it goes, or all at once"
    return last


SMALLER = Compacted((), 40_000, 10_000, "full", (0,), (0, "summary"))
PASTED: list[Content] = [MessageEntry(StoredMessage.of(user("w" * 40_000), None))]


def found(size: int) -> list[Content]:
    """What a tool found."""
    return [MessageEntry(StoredMessage.of(Message("user", (ToolResult("1", (Text("f" * size),)),)), None))]


def summed(read: int) -> list[Content]:
    """A summary by a model that has read so many tokens from the cache, and what it took the place of."""
    charge = Charge("m", Usage(cache_read=read), role=COMPACTOR, provider="p", usd=Decimal("0.004"))
    return [RequestSent("", 0, "m", role=COMPACTOR), ChargeEntry(charge), SMALLER]


@pytest.mark.parametrize(
    ("steps", "tokens", "usd"),
    [
        # the twin reads 40,000 and writes 10, the reply to it, where 1,000 are read and 9,000 written
        pytest.param([[SMALLER], asked(cache_read=1_000, cache_write=9_000)], 30_010, 40_200 - 181_000, id="once"),
        pytest.param(
            [summed(40_000), asked(cache_read=1_000, cache_write=9_000), asked(cache_read=10_000)],
            2 * 30_010 - 40_000,
            40_200 - 181_000 + 30_010 - 40_000,
            id="with what the summary cost",
        ),
        pytest.param(
            [[SMALLER], asked(cache_write=10_000), asked(cache_write=10_000)],
            2 * 30_010,
            40_200 - 200_000 + 20 * 30_010,
            id="a cache that has forgotten",
        ),
        pytest.param(
            ["then", [SMALLER], asked(cache_read=1_000, cache_write=9_000), "then", asked(cache_read=40_000)],
            30_010,
            40_200 - 181_000,
            id="taken back",
        ),
        pytest.param(
            [[Compacted((), 40_000, 9, "asked for", (0,))], asked(cache_write=900), asked(cache_read=900)],
            0,
            0,
            id="cleared",
        ),
        pytest.param(
            # the twin has 34,010 more, of which the provider has counted what was pasted: 4,000
            [PASTED, summed(44_010 + INSTRUCTION_TOKENS), asked(cache_read=1_000, cache_write=9_000)],
            34_010 - 44_010 - INSTRUCTION_TOKENS,
            40_000 + 20 * 4_010 - 181_000 - 40_000,
            id="with what was said before it counted by the summary",
        ),
        pytest.param(
            # what a tool found had half a token to a byte, and what is pasted then is prose none the less: 10,001
            [found(9_850), asked(cache_read=40_010, cache_write=4_925), PASTED, [SMALLER], asked(cache_write=10_000)],
            44_945 + 10_001 - 10_000,
            44_935 + 20 * 10_011 - 200_000,
            id="what is said has tokens of its own kind",
        ),
        pytest.param(
            # the twin finds there what it had sent to it, 40,000, and writes two replies
            [asked("other", cache_write=40_010), [SMALLER], asked(cache_read=1_000, cache_write=9_000)],
            30_020,
            40_400 - 181_000,
            id="back with the model before",
        ),
        pytest.param([[SMALLER], asked("other", input=10_000)], 30_010, 300_100, id="another model, by the last count"),
        pytest.param(
            # the other counts twice as much: the twin has 80,020 tokens, and finds them there
            [
                asked("other", cache_write=80_020),
                asked(cache_read=40_000),
                [SMALLER],
                asked("other", cache_read=20_000),
            ],
            60_020,
            60_020,
            id="another model, that counts otherwise",
        ),
        pytest.param([[SMALLER], asked("unpriced", cache_write=10_000)], 30_010, None, id="no known price"),
    ],
)
def test_saving_is_read_off_the_log(steps: list[list[Content] | str], tokens: int, usd: int | None) -> None:
    told = told_by(asked(cache_write=40_000), *steps)
    assert (told.compactions, told.tokens) == (1, tokens)
    assert told.usd == (None if usd is None else usd * Decimal("1e-7"))
