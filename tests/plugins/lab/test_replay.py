"""A recorded session runs again as it was; one that was not what it says is found out, and where."""

import asyncio
import json
import subprocess
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_story import FAMILIES, agent_for, staged, tell

from sagent.advisor.advisory import Setup
from sagent.advisor.extension import advise
from sagent.advisor.rules import Rules
from sagent.agent import Agent, Resources, RunLimits
from sagent.app import open_agent
from sagent.config import load
from sagent.context import prompt as prompts
from sagent.context.calls import says_nothing
from sagent.cost.ledger import Ledger
from sagent.cost.prices import PriceBook
from sagent.errors import ModelError, ToolError, UsageError
from sagent.lib.json import JsonObject, sha256_hex
from sagent.messages import Message, assistant, user
from sagent.model import Request, RequestDigest, ToolSpec
from sagent.peer import Background, Compact, SpawnRequest, Switch
from sagent.plugins.exports.export import export_bundle
from sagent.plugins.lab import workcopy
from sagent.plugins.lab.rebuild import adapters
from sagent.plugins.lab.recording import Prompt, session_at
from sagent.plugins.lab.replay import Replayed, replay, replay_log
from sagent.plugins.lab.rerun import Answers, RecordedCall
from sagent.plugins.programs.check import run_check
from sagent.policy import Allow, Deny
from sagent.providers import Anthropic
from sagent.session.contents import Opened, Unknown
from sagent.session.entries import Entry, seal
from sagent.session.folds import history
from sagent.session.log import MemoryLog, read_log
from sagent.session.store import Session, copy
from sagent.testing import ScriptedModel
from sagent.testing.script import Call, Fail, Step, Turn
from sagent.testing.scripted import _body
from sagent.testing.server import FakeProviderServer
from sagent.tool import RunContext
from sagent.tools import agent_tools, tool
from sagent.transcript.redaction import Redaction
from tests.archives import unpack
from tests.depth import deep, later
from tests.messages import call, result
from tests.waiting import until

PRICES = PriceBook()
CLAUDE = FAMILIES["anthropic"]


class Says(ScriptedModel):
    """A scripted model that can say what it would send."""

    def prepare(self, request: Request) -> SimpleNamespace:
        body = _body(request)
        return SimpleNamespace(digest=RequestDigest(sha256_hex(body), len(body), self.id))


async def played(log: MemoryLog, **found: object) -> Replayed:
    """A log in memory, replayed."""
    scripted = Says()
    return await replay_log(log.agent, tuple(log.entries()), log.blobs.get, lambda name: found.get(name, scripted))  # pyright: ignore[reportArgumentType]


def why(done: Replayed) -> str:
    """What a replay has against its recording."""
    found = done.divergence
    return "" if found is None else "\n".join((found.what, found.expected, found.came, found.hint, *found.diff))


async def recorded(state: Path, cwd: Path, *steps: Step, prompts: Sequence[str] = ("Hello.",)) -> Path:
    """A session of prompts and answers."""
    cwd.mkdir(exist_ok=True)
    async with staged(steps) as stage:
        with Session.create(state, cwd) as session:
            session.log().append(Opened(session.id, "root", str(cwd), {"sagent": "0.1.0"}))
            agent = agent_for(stage, session.log(), cwd, CLAUDE, advised=False)
            for text in prompts:
                await agent.run(text)
            await agent.aclose()
    return session.path


def rewritten(session: Path, change: Callable[[str, dict], dict]) -> None:
    """A log whose entries were changed, with every id made anew: the chain is whole."""
    file, lines, parent = session / "root.jsonl", [], ""
    for entry in read_log(file):
        made: Entry = seal(parent, Unknown(entry.kind, change(entry.kind, json.loads(entry.line)["body"])))
        lines.append(made.line)
        parent = made.id
    file.write_bytes(b"".join(lines))


@pytest.mark.costly
@pytest.mark.parametrize("family", FAMILIES)
async def test_full_session_replayed(family: str, tmp_path: Path) -> None:
    others = {"anthropic": "responses", "responses": "google", "chat": "anthropic", "google": "chat"}
    (tmp_path / "work").mkdir()
    session = await tell(tmp_path / "state", tmp_path / "work", FAMILIES[family], FAMILIES[others[family]])

    done = await replay(session)

    root, child = done.agents
    assert (why(root), why(child)) == ("", "")
    assert (root.agent, child.agent) == ("root", "root/review")
    assert (root.requests, root.recorded, root.turns) == (10, 10, 11)
    assert root.results == 10
    assert (child.requests, child.recorded) == (2, 2)
    assert (root.side_calls.same, root.side_calls.recorded) == (2, 2)
    assert any("consultations" in what for what in root.taken)
    assert any("compactions" in what for what in root.taken)
    assert done.is_exact
    assert [each.agent for each in (await replay(session, agent="root/review")).agents] == ["root/review"]


async def test_rewritten_reply_found_when_sent(tmp_path: Path) -> None:
    looks = Turn(text="I look.", calls=(Call("wait", {"what": "rain"}),))
    session = await recorded(tmp_path / "state", tmp_path / "work", looks, Turn(text="It rains."), Turn(text="Yes."),
                             prompts=("Look.", "Sure?"))  # fmt: skip
    assert (await replay(session)).is_exact

    def lie(kind: str, body: dict) -> dict:
        return json.loads(json.dumps(body).replace("It rains.", "It snows.")) if kind == "message" else body

    rewritten(session, lie)
    (root,) = (await replay(session)).agents

    assert root.requests == 2
    assert root.divergence is not None
    assert root.divergence.turn == 3
    assert "the reply of turn 2" in root.divergence.hint
    assert "The request of turn 2 agrees" in root.divergence.hint


async def test_rewritten_prompt_and_options_found(tmp_path: Path) -> None:
    session = await recorded(tmp_path / "state", tmp_path / "work", Turn(text="Hi."))
    rewritten(session, lambda kind, body: {**body, "system": "Be evil."} if kind == "prompt" else body)
    (root,) = (await replay(session)).agents
    assert root.divergence is not None and "the system prompt" in root.divergence.hint

    other = await recorded(tmp_path / "state", tmp_path / "other", Turn(text="Hi."))
    said = {"parameters": {"max_tokens": 7, "top_k": 1}}
    rewritten(other, lambda kind, body: {**body, **said} if kind == "request" else body)
    (root,) = (await replay(other)).agents
    assert root.divergence is not None and root.divergence.what.startswith("what the log says of a request")
    assert any("top_k" in line for line in root.divergence.diff)

    said = {"parameters": {"max_tokens": 7, "invented": 1}, "sha256": "0" * 64}
    rewritten(other, lambda kind, body: {**body, **said} if kind == "request" else body)
    (root,) = (await replay(other)).agents
    assert root.divergence is not None and root.divergence.what == "the parameters of the request"


async def test_unsent_entries_unchecked(tmp_path: Path) -> None:
    """Which `sagent replay` says: the head, or a signature, is for that."""
    session = await recorded(tmp_path / "state", tmp_path / "work", Turn(text="It rains."))
    rewritten(session, lambda kind, body: json.loads(json.dumps(body).replace("rains", "snows")))
    assert (await replay(session)).is_exact


async def test_different_result_shown(tmp_path: Path) -> None:
    asks = Turn(calls=(Call("nope", {}),))
    session = await recorded(tmp_path / "state", tmp_path / "work", asks, Turn(text="Oh."))

    def lie(kind: str, body: dict) -> dict:
        return json.loads(json.dumps(body).replace("no tool named", "a tool named")) if kind == "result" else body

    rewritten(session, lie)
    (root,) = (await replay(session)).agents
    assert root.divergence is not None
    assert (root.divergence.turn, root.divergence.what) == (1, "the results")
    assert any(line.startswith("+") and "no tool named" in line for line in root.divergence.diff)


async def test_logged_prompt_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeProviderServer([Turn(text="Hi."), Turn(text="Ho.")]) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        settings = load({"cwd": str(tmp_path), "model": CLAUDE, "effort": "high", "max_budget_usd": "1"})
        async with open_agent(settings, lambda _: None) as agent:
            await agent.run("Hello.")
            result = await agent.run("Hello again.")
    other = tmp_path / "other.md"
    other.write_text("You are somebody else.")
    monkeypatch.setattr(prompts, "PROMPT_FILE", other)

    done = await replay(Path(result.session_path))

    assert done.is_exact, why(done.agents[0])


async def test_damaged_log_not_replayed(tmp_path: Path) -> None:
    session = await recorded(tmp_path / "state", tmp_path / "work", Turn(text="Hi."))
    file = session / "root.jsonl"
    file.write_bytes(file.read_bytes().replace(b"Hi.", b"Ho."))
    done = await replay(session)
    assert not done.is_same
    assert "does not match its id" in done.problems[0]
    assert done.agents == ()


async def test_newer_log_refused(tmp_path: Path) -> None:
    session = await recorded(tmp_path / "state", tmp_path / "work", Turn(text="Hi."))
    rewritten(session, lambda kind, body: {**body, "version": 99} if kind == "opened" else body)
    with pytest.raises(UsageError, match="newer sagent"):
        await replay(session)


async def test_bundle_replayed_unless_redacted(tmp_path: Path) -> None:
    session = await recorded(tmp_path / "state", tmp_path / "work", Turn(text="Hi."))
    export_bundle(session, tmp_path / "plain.tar", Redaction(), {})
    assert (await replay(tmp_path / "plain.tar")).is_exact

    secret = await recorded(
        tmp_path / "state", tmp_path / "other", Turn(text="Hi."), prompts=("sk-ant-REDACTME0123456789abcdef",)
    )
    export_bundle(secret, tmp_path / "secret.tar", Redaction(), {})
    done = await replay(tmp_path / "secret.tar")
    assert not done.is_same
    assert "secrets were taken out" in done.problems[0]
    with tarfile.open(tmp_path / "secret.tar") as archive:
        unpack(archive, tmp_path / "unpacked")
    for path in (tmp_path / "secret.tar", tmp_path / "unpacked"):  # as compare and replay --model open it
        with pytest.raises(UsageError, match="secrets were taken out"), session_at(path):
            pass


async def test_missing_agent_named(tmp_path: Path) -> None:
    session = await recorded(tmp_path / "state", tmp_path / "work", Turn(text="Hi."))
    with pytest.raises(UsageError, match="it has root"):
        await replay(session, agent="root/nobody")


# -- without a provider ------------------------------------------------------------------------------------------------


@tool(effect="none")
async def act(run: RunContext, how: str = "well", text: str = "") -> str:
    """Act: well, badly, or so that somebody writes meanwhile."""
    match how:
        case "badly":
            raise ToolError(f"no: {text}")
        case "news":
            agent = run.caller
            assert isinstance(agent, Agent)
            agent.inform(user(f"news: {text}", sender="somebody"))
        case "slowly":
            await asyncio.sleep(30)
        case _:
            pass
    return f"done: {text}"


class Careful:
    """A policy: what says so is denied."""

    async def before_tool(self, call, effect, workspace):
        return Deny("not that") if call.arguments.get("how") == "denied" else Allow()

    async def after_turn(self, turn):
        return ()


def calls(*given: tuple[str, JsonObject]) -> Message:
    return Message("assistant", tuple(call(f"c{place}", name, **given) for place, (name, given) in enumerate(given)))


def actor(*script: object, log: MemoryLog, **more: object) -> Agent:
    model = Says(*script)  # pyright: ignore[reportArgumentType]
    resources = Resources(log=log, resolve=lambda _: model, ledger=Ledger(None, PRICES))
    return Agent(
        model,
        system="be",
        tools=[act],
        policy=Careful(),
        limits=RunLimits(max_retries=0),
        resources=resources,
        **more,  # pyright: ignore[reportArgumentType]
    )


async def test_model_without_adapter_counted() -> None:
    log = MemoryLog()
    agent = actor(calls(("act", JsonObject({"text": "x"}))), "done", log=log)
    await agent.run("go")
    done = await played(log, **{"scripted/scripted": "there is no adapter for scripted here"})
    assert why(done) == ""
    assert (done.requests, done.recorded, done.results) == (0, 2, 1)
    assert done.unchecked == {"requests whose bytes cannot be built: there is no adapter for scripted here": 2}
    assert not done.is_exact
    log.close()


async def test_every_branch_replayed() -> None:
    log = MemoryLog()
    agent = actor("one", "two", "three", log=log)
    await agent.run("a")
    here = log.head
    await agent.run("b")
    agent.rewind(here)
    await agent.run("c")
    done = await played(log)
    assert why(done) == ""
    assert (done.requests, done.recorded) == (3, 3)
    assert done.taken == {"returns to an earlier entry": 1}
    log.close()


async def test_trimmed_results_replayed() -> None:
    log = MemoryLog()
    agent = actor(calls(("act", JsonObject({"text": "x" * 500}))), "one", "two", log=log)
    await agent.run("a")
    agent.apply(Compact(drop=("act",)))
    await agent.run("b")
    done = await played(log)
    assert why(done) == ""
    assert (done.requests, done.recorded) == (3, 3)
    log.close()


async def test_killed_and_resumed_process() -> None:
    whole = MemoryLog()
    two = calls(("act", JsonObject({"text": "1"})), ("act", JsonObject({"text": "2"})))
    await actor(two, "end", log=whole).run("a")
    log = MemoryLog()
    for entry in whole.entries():
        log.append(Unknown(entry.kind, json.loads(entry.line)["body"]))
        if entry.kind == "result":
            break
    done = await played(log)
    assert why(done) == ""
    assert done.taken == {"turns cut off by the end of their process": 1}
    whole.close()
    log.close()


async def test_background_call_replayed() -> None:
    log = MemoryLog()
    agent = actor(calls(("act", JsonObject({"how": "slowly"}))), "in between", "the end", log=log)
    task = asyncio.create_task(agent.run("a"))
    await until(
        lambda: any(entry.kind == "message" and b"tool_call" in entry.line for entry in log.entries()),
        task=task,
        pause=0,
    )
    await until(lambda: agent.state.inbox._watchers, "it waits for its call", task=task, pause=0)
    agent.apply(Background(""))
    await until(lambda: any(b"in between" in entry.line for entry in log.entries()), task=task, pause=0)
    await agent.cancel_job("job:1")
    await task
    done = await played(log)
    assert why(done) == ""
    assert done.requests == done.recorded
    assert any("background" in what for what in done.taken)
    log.close()


TEXTS = st.text(min_size=1, max_size=20)
HOW = st.sampled_from(["well", "badly", "news", "denied"])
CALL = st.one_of(
    st.builds(lambda how, text: ("act", JsonObject({"how": how, "text": text})), HOW, TEXTS),
    st.just(("act", JsonObject({"why": 1}))),
    st.just(("missing", JsonObject())),
)
TURNS = st.lists(st.lists(CALL, min_size=1, max_size=4), max_size=3)
ANSWERS = TEXTS.filter(lambda text: not says_nothing(assistant(text)))
RUNS = st.lists(st.tuples(TEXTS, TURNS, st.one_of(ANSWERS, st.just(None)), st.booleans()), min_size=1, max_size=4)


@later
@settings(deadline=None, max_examples=deep(12, 40))
@given(RUNS)
def test_any_conversation_is_replayed(runs: list[tuple[str, list, str | None, bool]]) -> None:
    async def once() -> None:
        log = MemoryLog()
        script: list[object] = []
        for _, turns, last, _ in runs:
            script += [calls(*turn) for turn in turns]
            script.append(ModelError("auth", "no", provider="scripted") if last is None else last)
        agent = actor(*script, log=log)
        for said, _, last, leave in runs:
            if last is None:
                with pytest.raises(ModelError):
                    await agent.run(said)
            else:
                here = log.head
                await agent.run(said)
                if leave and here:
                    agent.rewind(here)
            agent.apply(Switch(effort="high"))
        done = await played(log)
        assert why(done) == ""
        assert done.requests == done.recorded
        assert done.unchecked == {}
        await agent.aclose()
        log.close()

    asyncio.run(once())


# -- what else may happen ----------------------------------------------------------------------------------------------


async def test_fallback_and_reverted_switch() -> None:
    log = MemoryLog()
    down = Says(ModelError("overloaded", "busy", provider="scripted"), "I am back.", "again")
    spare = Says("I take over.", provider="spare", model_id="one")
    broken = Says(ModelError("not_found", "no such model", provider="broken"), provider="broken", model_id="gone")
    models = {"scripted/scripted": down, "broken/gone": broken, "spare/one": spare}
    resources = Resources(log=log, resolve=models.__getitem__, fallbacks=(spare,), ledger=Ledger(None, PRICES))
    agent = Agent(down, system="be", limits=RunLimits(max_retries=0), resources=resources)
    await agent.run("a")
    agent.apply(Switch(model="scripted/scripted"))
    await agent.run("b")
    agent.apply(Switch(model="broken/gone"))
    await agent.run("c")
    done = await played(log, **models)
    assert why(done) == ""
    assert (done.requests, done.recorded) == (3, 3)
    assert done.taken["switches to another model because one could not be reached"] == 2
    log.close()


async def test_preempting_message_and_turn_limit() -> None:
    log = MemoryLog()
    agent = actor(calls(("act", JsonObject({"how": "slowly"}))), "I read it.", calls(("act", JsonObject())), log=log)
    task = asyncio.create_task(agent.run("a"))
    await until(lambda: agent.state.inbox._watchers, "it waits for its call", task=task, pause=0)
    agent.send("stop that", "now")
    await until(lambda: any(b"I read it." in entry.line for entry in log.entries()), task=task, pause=0)
    await agent.cancel_job("job:1")
    await task
    agent.state.context.limits = RunLimits(max_turns=1)
    assert (await agent.run("b")).stop_reason == "max_turns"
    done = await played(log)
    assert why(done) == ""
    assert (done.requests, done.recorded) == (3, 3)
    log.close()


async def test_inherited_and_living_conversation() -> None:
    log = MemoryLog()
    scripts = {
        "root": Says("one", calls(("AgentSpawn", JsonObject({"prompt": "p", "name": "full", "share": "full"}))), "two"),
        "root/full": Says(calls(("act", JsonObject({"text": "x"}))), "full has it"),
        "root/long": Says("first", "second"),
    }

    class Each(Says):
        def stream(self, request: Request):
            return scripts[request.conversation.partition(":")[2]].stream(request)

    agent = Agent(
        Each(), system="be", tools=[act, *agent_tools()], resources=Resources(log=log, ledger=Ledger(None, PRICES))
    )
    await agent.run("a")
    await agent.run("b")
    child = await agent.spawn(SpawnRequest("go", name="long", persistent=True))
    await child.wait()
    child.send("and now?")
    await child.wait()
    for path in ("root", "root/full", "root/long"):
        done = await played(log.child(path))
        assert why(done) == "", path
        assert done.requests == done.recorded > 0
        assert done.unchecked == {}
    await agent.aclose()
    log.close()


async def test_structured_answer_without_schema(tmp_path: Path) -> None:
    async with staged([Turn(text='{"n": 1}'), Turn(text="not data"), Turn(text='{"n": 2}')]) as stage:
        with Session.create(tmp_path, tmp_path) as session:
            session.log().append(Opened(session.id, "root", str(tmp_path), {}))
            agent = agent_for(stage, session.log(), tmp_path, CLAUDE, advised=False)
            schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
            assert (await agent.run("a", output=schema)).data == {"n": 1}
            assert (await agent.run("b", output=schema)).data == {"n": 2}
            await agent.aclose()
    (root,) = (await replay(session.path)).agents
    assert why(root) == ""
    assert (root.requests, root.recorded) == (0, 3)
    assert sum(root.unchecked.values()) == 3
    assert "as data" in next(iter(root.unchecked))


async def test_continued_copy_replayed(tmp_path: Path) -> None:
    model = FAMILIES["responses"]
    async with staged([Turn(text="One."), Turn(text="Two.")]) as stage:
        with Session.create(tmp_path, tmp_path) as session:
            session.log().append(Opened(session.id, "root", str(tmp_path), {}))
            agent = agent_for(stage, session.log(), tmp_path, model)
            await agent.run("a")
            await agent.aclose()
        made = copy(session.path, tmp_path, tmp_path)
        with Session.open(made) as other:
            agent = agent_for(stage, other.log(), tmp_path, model, effort="high")
            agent.restore(history(other.log().entries(), other.log().blobs.get))
            await agent.run("b")
            await agent.aclose()
    done = await replay(made)
    assert done.is_exact, why(done.agents[0])


async def test_resumed_with_other_model(tmp_path: Path) -> None:
    gpt = FAMILIES["responses"]
    async with staged([Turn(text="One."), Turn(text="Two."), Turn(text="Three.")]) as stage:
        with Session.create(tmp_path, tmp_path) as session:
            log = session.log()
            log.append(Opened(session.id, "root", str(tmp_path), {}))
            for model, advised in ((CLAUDE, False), (gpt, False), (CLAUDE, True)):
                agent = agent_for(stage, log, tmp_path, model, advised=advised)
                agent.restore(history(log.entries(), log.blobs.get))
                await agent.run("go on")
                await agent.aclose()
    done = await replay(session.path)
    assert done.is_exact, why(done.agents[0])


async def test_recovered_overflow(tmp_path: Path) -> None:
    full = Fail(400, message="prompt is too long: 250000 tokens > 200000 maximum", type="invalid_request_error")
    reads = Turn(calls=(Call("Read", {"file_path": "long.txt"}),))
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "long.txt").write_text("a line of text\n" * 1_500)
    session = await recorded(tmp_path / "state", tmp_path / "work", reads, reads, Turn(text="Read."), full,
                             Turn(text="Fine."), prompts=("Read.", "And?"))  # fmt: skip
    done = await replay(session)
    assert done.is_exact, why(done.agents[0])
    assert any("compactions" in what for what in done.agents[0].taken)


async def test_native_advisor_recognized(tmp_path: Path) -> None:
    answers = [Turn(text="I look.", calls=(Call("act", {}),)), Turn(text="Done.")]
    async with FakeProviderServer(answers, strict=False) as server:
        provider = Anthropic.from_key("k", base_url=server.url)
        log = MemoryLog()
        advisory = advise(["anthropic/claude-opus-4-6"], Setup(mode="native", rules=Rules(triggers=())))
        resources = Resources(
            log=log, ledger=Ledger(None, PRICES), advisory=advisory, resolve=lambda _: provider.model("claude-opus-4-6")
        )
        agent = Agent(provider.model("claude-sonnet-4-6"), system="be", tools=[act], resources=resources)
        await agent.run("a")
        assert "advisor_20260301" in server.requests[0].body.decode()
        await agent.aclose()
        await provider.aclose()
    done = await replay_log("root", tuple(log.entries()), log.blobs.get, adapters())
    assert why(done) == ""
    assert done.is_exact
    log.close()


async def test_twice_cut_result_kept_as_is() -> None:
    log = MemoryLog()
    long = calls(("act", JsonObject({"text": "x" * 70_000})))
    await actor(long, "one", log=log).run("a")
    done = await played(log)
    assert why(done) == ""
    assert (done.requests, done.recorded) == (2, 2)
    assert any("cut a second time" in what for what in done.taken)
    log.close()


# -- asking again ------------------------------------------------------------------------------------------------------


def test_answer_given_once_to_same_call() -> None:
    schema = JsonObject({"type": "object", "properties": JsonObject({"n": JsonObject({"type": "integer"})})})
    prompt = Prompt("be", (ToolSpec("count", "", schema), ToolSpec("advisor", "", JsonObject())))
    made = [
        (call("1", "count", n="5"), result("1", "first")),
        (call("2", "count", n=5), result("2", "second", failed=True)),
    ]
    answers = Answers(prompt, [RecordedCall("root", *each) for each in made])
    assert [tool.name for tool in answers.tools] == ["count"]
    first, second = (answers.take("count", JsonObject({"n": 5})) for _ in range(2))
    assert first is not None and first.text == "first"
    assert second is not None and second.is_error
    assert answers.take("count", JsonObject({"n": 5})) is None
    assert answers.take("other", JsonObject()) is None
    assert (answers.answered, answers.missing) == (2, 2)


async def test_impossible_copy_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    for name in ("x", "y"):
        (tmp_path / "a" / name).write_text(name)
    monkeypatch.setattr(workcopy, "MAX_COPY_FILES", 1)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(UsageError, match="too large"):
        async with workcopy.scratch_of(tmp_path / "a"):
            pass
    with pytest.raises(UsageError, match="does not exist"):
        async with workcopy.scratch_of(tmp_path / "b"):
            pass
    with pytest.raises(UsageError, match="exists already"):
        async with workcopy.scratch_of(tmp_path / "a", keep=tmp_path / "a"):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.needs("git")
async def test_missing_commit_reported(tmp_path: Path) -> None:
    origin = tmp_path / "a"
    origin.mkdir()
    (origin / "x").write_text("now")
    subprocess.run(["git", "init", "-q", str(origin)], check=True)
    async with workcopy.scratch_of(origin, "0" * 40) as made:
        assert "does not exist" in made.how
        assert (made.directory / "x").read_text() == "now"
        (made.directory / "x").write_text("other")
        place = made.directory
    assert (origin / "x").read_text() == "now"
    assert not place.parent.exists()


async def test_endless_check_stopped(tmp_path: Path) -> None:
    late = await run_check("sleep 60", tmp_path, 0.05)
    assert (late.code, late.said) == (None, "it did not end within 0.05 s")
    assert (await run_check("echo a; exit 3", tmp_path)).code == 3
    assert (await run_check("true", tmp_path / "gone")).code is None


CUT = Turn(calls=[Call("Read", {"file_path": "a.txt"}), Call("Write", '{"file_path": "b', cut=True)], stop="max_tokens")
LONE = Turn(calls=[Call("Write", "", cut=True)], stop="max_tokens")
WITHDRAWN = Turn(calls=[Call("Read", {"file_path": "a.txt"})], stop="refusal")


@pytest.mark.parametrize(
    "steps",
    [[CUT, Turn("ok")], [LONE, Turn("ok")], [LONE, LONE, LONE], [WITHDRAWN]],
    ids=["after a whole one", "alone", "three times", "withdrawn"],
)
async def test_session_with_cut_calls_replayed(steps: list[Step], tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("hello")
    session = await recorded(tmp_path / "state", work, *steps, Turn("Hi again."), prompts=["Hello.", "And?"])
    done = await replay(session)
    (root,) = done.agents
    assert (why(root), done.is_exact) == ("", True)
    assert not (work / "b").exists()
