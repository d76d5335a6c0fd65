"""Decoding over slots, on the CPU: the same step that a CUDA graph captures, called, or recorded by torch's own tracer.

What a trace freezes (Python values, branches, addresses) is what a graph freezes. The capture itself needs a card.
"""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false

import gc
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from sagent.lib.json import json_freeze_object
from sagent.messages import Message, assistant, user
from sagent.model import Reply, TextPart
from sagent.plugins.local import answer, runner, slots
from sagent.plugins.local.selfhosted import SelfHosted
from sagent.plugins.local.slots import Slots, Step
from sagent.plugins.local.weights import load
from sagent.testing.model_suite import MakeModel, collect, failure
from tests.plugins.local import test_selfhosted as usual
from tests.plugins.local.test_selfhosted import Home, ask, engine, opened

pytestmark = pytest.mark.needs("torch")
home = usual.home
GREEDY = json_freeze_object({"do_sample": False, "repetition_penalty": 1.3})
TURNS = ([user("and then?")], [assistant("Nothing."), user("no: before!")], [user("why?")])

Begin = Callable[[object], None]


def record(_torch: object, _device: object, step: Step) -> Step:
    """Stands for the capture: what was traced is run from then on, without the Python around it."""
    from torch.fx.experimental.proxy_tensor import make_fx  # pyright: ignore[reportMissingImports] -- an extra, not installed for checks

    return make_fx(lambda: step())()


def refuse(_torch: object, _device: object, _step: Step) -> Step:
    raise RuntimeError("operation not permitted when stream is capturing")


def freeze(_torch: object, _device: object, step: Step) -> Step:
    """A recording that stands still: it gives what it gave once."""
    once = step().clone()
    return lambda: once


@pytest.fixture
def over_slots(monkeypatch: pytest.MonkeyPatch) -> Begin:
    """Decode over slots from now on, with a step that is recorded so, or just called."""

    def begin(recorder: object) -> None:
        monkeypatch.setattr(runner, "load", lambda *these: replace(load(*these), captured=True))
        monkeypatch.setattr(answer, "Slots", lambda loaded, _record: Slots(loaded, recorder))

    return begin


async def talk(path: str, **more: object) -> list[Reply]:
    """The answers of several turns, each with all before it."""
    history: list[Message] = [user("Once upon a time. " * 40)]
    replies: list[Reply] = []
    settings = {"tools": (), "max_output": 24, "options": GREEDY, **more}
    async with opened(path) as model:
        for end in (*TURNS, []):
            replies.append((await collect(model, ask(*history, **settings)))[1])
            history += [replies[-1].message, *end] if len(end) != 2 else end
    return replies


def said(replies: list[Reply]) -> list[object]:
    return [(reply.message.parts, reply.message.stop, reply.usage) for reply in replies]


@pytest.mark.parametrize("options", [GREEDY, {"do_sample": True, "temperature": 2.0, "seed": 3}], ids=["greedy", "any"])
@pytest.mark.parametrize("recorder", [None, record], ids=["called", "recorded"])
@pytest.mark.parametrize("least", [2_048, 256], ids=["at once", "in more and more slots"])
async def test_same_answers_as_usual(
    home: Home,
    over_slots: Begin,
    monkeypatch: pytest.MonkeyPatch,
    recorder: object,
    least: int,
    options: Mapping[str, object],
) -> None:
    """Over several turns, with what was read before kept; where the slots were too few, too."""
    path = home.make(initializer_range=0.6)
    options = json_freeze_object(dict(options))
    as_usual = await talk(path, options=options)
    monkeypatch.setattr(slots, "_MIN_SLOTS", least)
    monkeypatch.setattr(slots, "_AHEAD", 1 if least == 256 else 1_024)
    over_slots(recorder)
    replies = await talk(path, options=options)
    assert said(replies) == said(as_usual)
    assert [reply.notes for reply in replies] == [()] * 4
    assert replies[-1].usage.cache_read > 700


async def test_answer_outgrows_slots(home: Home, over_slots: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home.make(initializer_range=0.6)
    as_usual = await talk(path, max_output=60)
    monkeypatch.setattr(slots, "_MIN_SLOTS", 32)
    monkeypatch.setattr(slots, "_AHEAD", 1)
    over_slots(record)
    assert said(await talk(path, max_output=60)) == said(as_usual)


@pytest.mark.parametrize("recorder", [refuse, freeze])
async def test_uncaptured_step_runs_without_graph(home: Home, over_slots: Begin, recorder: object) -> None:
    """The note says so, once."""
    path = home.make(initializer_range=0.6)
    as_usual = await talk(path)
    over_slots(recorder)
    replies = await talk(path)
    assert said(replies) == said(as_usual)
    assert "is slower, without a CUDA graph: " in replies[0].notes[0]
    assert [len(reply.notes) for reply in replies] == [1, 0, 0, 0]


@pytest.mark.parametrize("after", [0, 1, 3], ids=["before anything was read", "in the prompt", "in the answer"])
async def test_short_memory_moves_cache(
    home: Home, over_slots: Begin, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    path = home.make(initializer_range=0.6)
    as_usual = await talk(path, max_output=60)
    monkeypatch.setattr(slots, "_AHEAD", 1)
    monkeypatch.setattr(slots, "_MIN_SLOTS", 512 if after else 2_048)
    whole = Slots._run
    calls: list[int] = []

    def run(self: Slots, *these: object) -> object:
        calls.append(1)
        if len(calls) > after:
            raise RuntimeError("CUDA out of memory.")
        return whole(self, *these)

    monkeypatch.setattr(Slots, "_run", run)
    over_slots(None)
    replies = await talk(path, max_output=60)
    assert said(replies) == said(as_usual)
    assert replies[0].notes[0].endswith("RuntimeError: CUDA out of memory.")


async def test_failed_move_fails_only_this_call(home: Home, over_slots: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home.make(initializer_range=0.6)
    request = ask(user("Once upon a time. " * 40), tools=(), max_output=24, options=GREEDY)
    async with opened(path) as model:
        as_usual = (await collect(model, request))[1]

    def out_of_memory(_self: Slots) -> object:
        raise RuntimeError("CUDA out of memory.")

    monkeypatch.setattr(Slots, "_moved", out_of_memory)
    over_slots(refuse)
    async with opened(path) as model:
        _, error = await failure(model, request)
        assert error.kind == "context_overflow"
        reply = (await collect(model, request))[1]
        assert said([reply]) == said([as_usual])
        assert len(reply.notes) == 1


async def test_sliding_layers_run_as_before(home: Home, over_slots: Begin) -> None:
    path = home.make(
        use_sliding_window=True,
        sliding_window=64,
        max_window_layers=1,
        layer_types=["full_attention", "sliding_attention"],
    )
    over_slots(record)
    replies = await talk(path)
    assert "StaticSlidingWindowLayer" in replies[0].notes[0]
    assert replies[1].notes == ()


async def test_stopped_answer_reused(home: Home, over_slots: Begin) -> None:
    """What it had read is kept, and the answers after it are those of a model that read everything."""
    path = home.make(initializer_range=0.6)
    request = ask(user("Once upon a time. " * 60), tools=(), max_output=None, options=GREEDY)
    over_slots(record)
    async with opened(path) as model:
        stream = model.stream(request)
        while not isinstance(await anext(stream), TextPart):
            pass
        await stream.aclose()
        kept = (await collect(model, replace(request, max_output=30)))[1]
        assert kept.usage.cache_read > 1_000
        engine(model)._known = []
        fresh = (await collect(model, replace(request, max_output=30)))[1]
        assert (fresh.usage.cache_read, fresh.message.parts) == (0, kept.message.parts)


async def test_closing_frees_memory(home: Home, over_slots: Begin) -> None:
    over_slots(record)
    provider = SelfHosted()
    model = provider.model(home.make(initializer_range=0.6) + "+cpu")
    await collect(model, ask(max_output=5))
    held = [weakref.ref(layer.keys) for layer in engine(model)._slots._cache.layers]
    assert all(each() is not None for each in held)
    await provider.aclose()
    gc.collect()
    assert [each() for each in held] == [None, None]


class TestSlotsKeepThePromises(usual.TestSelfHostedKeepsThePromises):
    """Those of every model."""

    @pytest.fixture
    def make_model(self, home: Home, over_slots: Begin) -> MakeModel:
        over_slots(None)
        return super().make_model.__wrapped__(self, home)


@pytest.mark.needs("cuda")
async def test_step_captured_on_gpu(home: Home) -> None:
    """The same tokens as the same step that is not captured; in the end the memory is free."""
    import torch  # pyright: ignore[reportMissingImports] -- an extra, not installed for checks

    path = home.make(initializer_range=0.6)
    request = ask(user("Once upon a time. " * 60), tools=(), max_output=200, options=GREEDY)
    before = torch.cuda.memory_allocated()
    parts: list[object] = []
    for recorder in (None, slots.capture):
        provider = SelfHosted()
        model = provider.model(f"{path}+cuda+float32")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(answer, "capture", recorder)
            replies = [(await collect(model, request))[1] for _ in range(2)]
        assert [reply.notes for reply in replies] == [(), ()]
        assert replies[1].usage.cache_read > 1_000
        parts += [reply.message.parts for reply in replies]
        await provider.aclose()
    assert parts == parts[:1] * 4
    gc.collect()
    assert torch.cuda.memory_allocated() <= before
