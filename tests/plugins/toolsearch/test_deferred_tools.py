"""Tools that are found before they are called: requests are small, and all but the wire see the tool that is meant."""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sagent import tools as built_in
from sagent.app import open_agent
from sagent.config import load
from sagent.engine.context import specs_of
from sagent.events import Denied, Event, ToolFinished, ToolStarted
from sagent.lib.json import JsonObject, as_object, json_freeze_object, wire_bytes
from sagent.messages import Message, Opaque, Private, ToolCall, ToolResult, assistant, user
from sagent.model import Reply, Request, ToolSpec
from sagent.plugins.toolsearch.find import MAX_FREE_BYTES, CallTool, FindTools, with_search
from sagent.providers import deferral, provider_named
from sagent.testing.script import Fail, Received
from sagent.testing.server import Call, FakeProviderServer, Step, Turn
from sagent.tool import Answer, Effect, RunContext, Workspace, arguments_schema
from tests.chosen import entries, made
from tests.depth import later

FAMILIES = {
    "anthropic/claude-sonnet-4-6": "ANTHROPIC",
    "openai/gpt-5.6-terra": "OPENAI",
    "google/gemini-3.1-pro-preview": "GOOGLE",
    "moonshot/kimi-k2.6": "MOONSHOT",
}
MEASURED = [*FAMILIES, "bedrock/us.amazon.nova-pro-v1:0"]  # one of each wire
DEFAULT = [entry.name for entry in entries("default")]
GROUPS = [*dict.fromkeys(group for entry in entries() for group in entry.groups if group != "default")]
EVERYTHING = [entry.name for entry in entries()]


class Deploy:
    """A tool that a model has to find; what it is called with is kept."""

    name = "mcp__shop__deploy_release"
    description = "Deploys a release of the shop to a stage. " + "It has a long description. " * 80
    parameters = arguments_schema("stage", stage={"type": "string"}, force={"type": "boolean"})
    deferrable = True
    unasked = False

    def __init__(self) -> None:
        self.calls: list[Mapping[str, object]] = []

    def effect(self, arguments: JsonObject, workspace: Workspace) -> Effect:
        return Effect("execute")

    async def __call__(self, arguments: JsonObject, run: RunContext) -> Answer:
        self.calls.append(dict(arguments))
        return f"deployed to {arguments['stage']}"


def environment(monkeypatch: pytest.MonkeyPatch, home: Path, server: FakeProviderServer) -> dict[str, str]:
    for family in FAMILIES.values():
        monkeypatch.setenv(f"{family}_API_KEY", "k")
        path = "" if family in ("ANTHROPIC", "GOOGLE") else "/v1"
        base = "GOOGLE_GEMINI_BASE_URL" if family == "GOOGLE" else f"{family}_BASE_URL"
        monkeypatch.setenv(base, server.url + path)
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "k")
    monkeypatch.setenv("ANTHROPIC_BEDROCK_BASE_URL", server.url)
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    return {"HOME": str(home), "SAGENT_STATE_DIR": str(home / "state")}


def names_sent(received: Received) -> list[str]:
    """The names of the tools in a request, whatever its family."""
    body: Any = received.json
    if received.family == "converse":
        return [tool["toolSpec"]["name"] for tool in body["toolConfig"]["tools"]]
    listed = body["tools"]
    if received.family == "google":
        listed = listed[0]["functionDeclarations"]
    return [tool.get("function", tool)["name"] for tool in listed]


async def first_request(
    model: str, given: Mapping[str, object], home: Path, monkeypatch: pytest.MonkeyPatch, more: Sequence[Deploy] = ()
) -> tuple[int, list[str]]:
    """The size of what a session with these settings sends first, in a directory of usual length, and its tools."""
    (home / "work").mkdir()
    async with FakeProviderServer([Turn(text="hello")]) as server:
        where = environment(monkeypatch, home, server)
        settings = load({"model": model, **given}, where, home / "work")
        async with open_agent(settings, lambda _: None, more=more) as agent:
            await agent.run("hi")
    first = server.requests[0]
    return len(first.body.replace(str(home).encode(), b"/home/somebody/projects")), names_sent(first)


def another(model: str) -> str:
    """A model of another provider."""
    return next(name for name in FAMILIES if name != model)


@pytest.mark.costly
@pytest.mark.parametrize("model", MEASURED)
async def test_full_first_request_small(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"tools": EVERYTHING, "memory": True, "plan": True, "advisors": [another(model)]}
    many = [_Numbered(number) for number in range(300)]
    size, names = await first_request(model, given, tmp_path, monkeypatch, many)
    assert size <= 12_000
    assert {"find_tools", "call_tool", "Read", "TodoWrite", "AskUser", "advisor"} <= {*names}
    found = {*EVERYTHING} - {*DEFAULT, "TodoWrite", "AskUser"}
    assert not {*found, "AgentSelf", "mcp__many__thing_7"} & {*names}


@pytest.mark.costly
@pytest.mark.parametrize("groups", [*((group,) for group in GROUPS), *pairwise(GROUPS)])
async def test_partial_tools_no_larger(
    groups: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    async with FakeProviderServer([Turn(text="hello")]) as server:
        where = environment(monkeypatch, tmp_path, server)
        flags = {"model": "openai/gpt-5.6-terra", "tools": ["default", *groups, "TodoWrite"], "memory": True}
        async with open_agent(load(flags | {"plan": True}, where, tmp_path / "work"), lambda _: None) as agent:
            await agent.run("hi")
    (first,) = server.requests
    assert len(first.body) <= 12_000


@pytest.mark.parametrize("model", MEASURED)
async def test_default_tools_small(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size, names = await first_request(model, {}, tmp_path, monkeypatch)
    assert size <= 9_000
    assert names == [entry.name for entry in entries("default")], (
        "nothing is sent that finds tools where there are none to find"
    )


@pytest.mark.costly
@pytest.mark.parametrize("model", MEASURED)
async def test_terminal_request_small(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = ["default", "TodoWrite", "AskUser"]
    given = {"tools": tools, "memory": True, "plan": True, "advisors": [another(model)]}
    size, names = await first_request(model, given, tmp_path, monkeypatch)
    assert size <= 12_000
    assert {"AgentSelf", "AskUser", "ExitPlan", "advisor"} <= {*names}


@pytest.mark.parametrize("name", EVERYTHING)
def test_choices_have_type_for_gemini(name: str) -> None:
    def choices(schema: object) -> list[JsonObject]:
        inner = [found for value in as_object(schema).values() for found in choices(value)]
        return [*([schema] if isinstance(schema, JsonObject) and "enum" in schema else []), *inner]

    for tool in made(name):
        assert all(choice.get("type") == "string" for choice in choices(tool.parameters))


class _Numbered(Deploy):
    server = "many"

    def __init__(self, number: int) -> None:
        super().__init__()
        self.name = f"mcp__many__thing_{number}"


@later
@pytest.mark.parametrize("model", FAMILIES)
async def test_events_name_real_tool(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    deploy, seen = Deploy(), list[Event]()
    meant = {"name": deploy.name, "arguments": {"stage": "test"}}
    steps = [Turn(calls=(Call("find_tools", {"query": "deploy"}),)), Turn(calls=(Call("call_tool", meant),)), Turn("x")]
    async with FakeProviderServer(steps) as server:
        where = environment(monkeypatch, tmp_path, server)
        flags = {"model": model, "permission_mode": "ask", "allow": [deploy.name]}
        async with open_agent(load(flags, where, tmp_path / "work"), seen.append, more=[deploy]) as agent:
            await agent.run("deploy it")
            found = agent.messages[2].results[0].text
            calls = [call for message in agent.messages for call in message.calls]
    assert deploy.calls == [{"stage": "test"}]
    assert deploy.description in found
    assert '"stage"' in found
    assert [(call.name, dict(call.arguments)) for call in calls][1] == (deploy.name, {"stage": "test"})
    assert [event.call.name for event in seen if isinstance(event, ToolStarted | ToolFinished)][2:] == [deploy.name] * 2
    last = server.requests[-1].body.decode()
    assert '"call_tool"' in last.partition('"deploy it"')[2]
    assert f'"name":"{deploy.name}"' in last.replace("\\", "")
    heads = {request.body.partition(b"deploy it")[0] for request in server.requests}
    assert len(heads) == 1, "what is sent first never changes"


@pytest.mark.costly
@pytest.mark.parametrize(
    "flags",
    [{"permission_mode": "full", "deny": [Deploy.name]}, {"permission_mode": "plan"}, {"permission_mode": "ask"}],
    ids=lambda flags: str(flags["permission_mode"]),
)
async def test_policy_holds_through_call_tool(
    flags: Mapping[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    deploy, seen = Deploy(), list[Event]()
    meant = {"name": deploy.name, "arguments": {"stage": "test"}}
    async with FakeProviderServer([Turn(calls=(Call("call_tool", meant),)), Turn("x")]) as server:
        where = environment(monkeypatch, tmp_path, server)
        given = {"model": "moonshot/kimi-k2.6", **flags}
        async with open_agent(load(given, where, tmp_path / "work"), seen.append, more=[deploy]) as agent:
            await agent.run("deploy it")
    assert deploy.calls == []
    assert [event.denial.tool for event in seen if isinstance(event, Denied)] == [deploy.name]


@pytest.mark.costly
@pytest.mark.parametrize(
    "given",
    [
        {"name": "Bash", "arguments": {"command": "touch made"}},
        {"name": "call_tool", "arguments": {"name": "Bash", "arguments": {"command": "touch made"}}},
        {"name": "nothing", "arguments": {}},
        {"arguments": {}},
        {},
        {"name": 3, "arguments": "x"},
        '{"name": "mcp__shop__deploy_release"',
        {"name": "mcp__shop__deploy_release"},
        {"name": "mcp__shop__deploy_release", "arguments": "{not json"},
    ],
    ids=repr,
)
async def test_call_tool_runs_nothing_by_itself(
    given: Mapping[str, object] | str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    deploy = Deploy()
    async with FakeProviderServer([Turn(calls=(Call("call_tool", given),)), Turn("x")]) as server:
        where = environment(monkeypatch, tmp_path, server)
        flags = {"model": "openai/gpt-5.6-terra", "permission_mode": "full"}
        async with open_agent(load(flags, where, tmp_path / "work"), lambda _: None, more=[deploy]) as agent:
            result = await agent.run("go")
            (answer,) = agent.messages[2].results
    assert answer.is_error
    assert result.content == "x"
    assert deploy.calls == []
    assert not (tmp_path / "work" / "made").exists()


@later
@pytest.mark.parametrize("shape", ["flat", "text"])
@pytest.mark.parametrize("model", FAMILIES)
async def test_weak_model_argument_shapes_accepted(
    model: str, shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    deploy, inner = Deploy(), {"stage": "test"}
    given = {"name": deploy.name, **(inner if shape == "flat" else {"arguments": json.dumps(inner)})}
    async with FakeProviderServer([Turn(calls=(Call("call_tool", given),)), Turn("x")]) as server:
        where = environment(monkeypatch, tmp_path, server)
        flags = {"model": model, "permission_mode": "full"}
        async with open_agent(load(flags, where, tmp_path / "work"), lambda _: None, more=[deploy]) as agent:
            await agent.run("go")
    assert deploy.calls == [inner]
    body: Any = server.requests[1].json
    if model.startswith("google/"):  # which signs calls
        assert body["contents"][1]["parts"][0]["functionCall"]["args"] == given
    if model.startswith("openai/"):  # which knows what it wrote
        assert json.loads(body["input"][1]["arguments"]) == given


@later
async def test_session_survives_provider_switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    deploy = Deploy()
    meant = {"name": deploy.name, "arguments": {"stage": "test"}}

    def answer(request: Received) -> Step:
        new = request.body.count(b"deploy once") > len(deploy.calls)
        return Turn(calls=(Call("call_tool", meant),)) if new else Turn("x")

    async with FakeProviderServer(answer) as server:
        where = environment(monkeypatch, tmp_path, server)
        for number, model in enumerate(FAMILIES):
            flags = {"model": model, "permission_mode": "full", "continue_session": number > 0}
            async with open_agent(load(flags, where, tmp_path / "work"), lambda _: None, more=[deploy]) as agent:
                await agent.run("deploy once")
        assert len(deploy.calls) == len(FAMILIES)
        for model in FAMILIES:
            flags = {"model": model, "continue_session": True}
            async with open_agent(load(flags, where, tmp_path / "work"), lambda _: None) as agent:
                assert (await agent.run("and now?")).content == "x"
                assert not agent.messages[-1].calls


class _Brief(Deploy):
    description = "Deploys a release of the shop."


async def test_few_tools_sent_directly() -> None:
    search = _Brief()
    assert len(wire_bytes([search.name, search.description, search.parameters])) < MAX_FREE_BYTES
    assert with_search([search]) == [search]
    (spec,) = specs_of([search])
    assert not spec.deferred, "who has no search is shown everything"
    assert not any(spec.deferred for spec in specs_of([search, _Numbered(1)]))


@pytest.mark.parametrize("count", [1, 40, 5_000])
def test_name_list_bounded(count: int) -> None:
    many = [_Numbered(number) for number in range(count)]
    assert len(FindTools(many).description) < 700
    assert (FindTools.name, CallTool.name) == (deferral.FIND_TOOLS, deferral.CALL_TOOL)


# -- the provider's own search ----------------------------------------------------------------------------------------

NATIVE = {"anthropic/claude-sonnet-4-6": "tool_search_tool_bm25", "openai/gpt-5.6-terra": "tool_search"}


def offered() -> tuple[ToolSpec, ...]:
    return specs_of([built_in.Read(), *with_search([Deploy()])])


def body_of(model: str, request: Request, base_url: str | None = None) -> Any:
    provider, _, name = model.partition("/")
    made: Any = provider_named(provider, key="k", base_url=base_url).model(name)
    return json.loads(made.prepare(request).body.data)


@pytest.mark.parametrize("model", NATIVE)
def test_official_address_searches_natively(model: str) -> None:
    request = Request("c", [user("hi")], tools=offered())
    body = body_of(model, request)
    assert [tool.get("name") or tool["type"] for tool in body["tools"]] == ["Read", Deploy.name, NATIVE[model]]
    assert [tool.get("defer_loading", False) for tool in body["tools"]] == [False, True, False]
    elsewhere = body_of(model, request, "https://gateway.example/v1")
    assert [tool["name"] for tool in elsewhere["tools"]] == ["Read", "find_tools", "call_tool"]


@pytest.mark.parametrize("model", ["anthropic/claude-3-7-sonnet-latest", "openai/gpt-5.4-nano", "openai/gpt-4o"])
def test_models_without_search_get_ours(model: str) -> None:
    body = body_of(model, Request("c", [user("hi")], tools=offered()))
    assert [tool["name"] for tool in body["tools"]] == ["Read", "find_tools", "call_tool"]


def test_native_search_results_left_out() -> None:
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "tool_search_tool_bm25", "input": {"query": "deploy"}}
    content = {"type": "tool_search_tool_search_result", "tool_references": [{"tool_name": Deploy.name}]}
    found = {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": content}
    said = [Opaque("", Private("anthropic", block)) for block in map(json_freeze_object, (use, found))]
    call = ToolCall("toolu_1", Deploy.name, json_freeze_object({"stage": "test"}))
    model = "anthropic/claude-sonnet-4-6"
    reply = assistant("", *said, call, model=model, stop="tool_use")
    history = [user("hi"), reply, Message("user", (ToolResult("toolu_1", ()),))]
    native = body_of(model, Request("c", history, tools=offered()))
    assert [block["type"] for block in native["messages"][1]["content"]] == [use["type"], found["type"], "tool_use"]
    for request in (Request("c", history), Request("c", history, tools=specs_of([built_in.Read()]))):
        assert [block["type"] for block in body_of(model, request)["messages"][1]["content"]] == ["tool_use"]
    elsewhere = body_of(model, Request("c", history, tools=offered()), "https://gateway.example")
    (block,) = elsewhere["messages"][1]["content"]
    assert block["input"] == {"name": Deploy.name, "arguments": {"stage": "test"}}


@pytest.mark.parametrize("model", NATIVE)
async def test_refused_search_retried_without(model: str) -> None:
    refused = Fail(400, message="tools.1.defer_loading: Extra inputs are not permitted")
    meant = {"name": Deploy.name, "arguments": {"stage": "test"}}
    async with FakeProviderServer([refused, Turn(calls=(Call("call_tool", meant),))], strict=False) as server:
        name, _, wanted = model.partition("/")
        made: Any = provider_named(name, key="k", base_url=server.url + ("" if name == "anthropic" else "/v1"))
        made.searches = True  # as at its maker's address
        try:
            request = Request("c", [user("hi")], tools=offered())
            replies = [item async for item in made.model(wanted).stream(request) if isinstance(item, Reply)]
        finally:
            await made.aclose()
    (reply,) = replies
    assert [(call.name, dict(call.arguments)) for call in reply.message.calls] == [(Deploy.name, {"stage": "test"})]
    assert [len(json.loads(request.body)["tools"]) for request in server.requests] == [3, 3]
    assert b"defer_loading" not in server.requests[-1].body


# -- what else has tools ----------------------------------------------------------------------------------------------


async def test_spawned_tools_sent_directly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    deploy = Deploy()

    def answer(request: Received) -> Step:
        names = names_sent(request)
        if names == [deploy.name]:
            done = b"deployed to test" in request.body
            return Turn("said by the child") if done else Turn(calls=(Call(deploy.name, {"stage": "test"}),))
        if b"said by the child" in request.body:
            return Turn("above")
        order = {"prompt": "deploy to test", "tools": [deploy.name]}
        return Turn("wait") if b'"role":"tool"' in request.body else Turn(calls=(Call("AgentSpawn", order),))

    async with FakeProviderServer(answer) as server:
        where = environment(monkeypatch, tmp_path, server)
        settings = load({"model": "moonshot/kimi-k2.6", "permission_mode": "full"}, where, tmp_path / "work")
        async with open_agent(settings, lambda _: None, more=[deploy]) as agent:
            await agent.run("go")
    assert deploy.calls == [{"stage": "test"}]


async def searched(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[Any]]:
    """Have an endpoint search by itself; return the session and the tools that it was sent."""
    (tmp_path / "work").mkdir()
    deploy, provider = Deploy(), model.partition("/")[0]
    config = tmp_path / ".config" / "sagent" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[providers.{provider}]\nabilities = [{{ of = "", tool_search = true }}]\n')
    steps = [Turn(calls=(Call(deploy.name, {"stage": "test"}),)), Turn("x")]
    async with FakeProviderServer(steps, strict=False) as server:
        where = environment(monkeypatch, tmp_path, server)
        settings = load({"model": model, "permission_mode": "full"}, where, tmp_path / "work")
        async with open_agent(settings, lambda _: None, more=[deploy]) as agent:
            await agent.run("deploy it")
            session = Path(agent.log.path)
    assert deploy.calls == [{"stage": "test"}]
    sent: Any = server.requests[0].json["tools"]
    return session, sent


@pytest.mark.costly
@pytest.mark.parametrize("model", NATIVE)
async def test_own_endpoint_searches_if_set(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, sent = await searched(model, tmp_path, monkeypatch)
    deferred = {tool.get("name") or tool["type"]: tool.get("defer_loading", False) for tool in sent}
    assert (deferred[Deploy.name], [*deferred.items()][-1]) == (True, (NATIVE[model], False))


def test_tools_that_nobody_chose_are_found_alone() -> None:
    unasked, small = Deploy(), Small()
    unasked.unasked = True
    tools = with_search([*made("default"), unasked, small])
    sent = {spec.name for spec in specs_of(tools) if not spec.deferred}
    deferred = {spec.name for spec in specs_of(tools) if spec.deferred}
    assert {Small.name, "Read", "find_tools", "call_tool"} <= sent
    assert deferred == {Deploy.name, "AgentSelf"}
    assert Small.name in {
        spec.name for spec in specs_of(with_search([*made("default"), Deploy(), small])) if spec.deferred
    }


class Small(Deploy):
    """A tool that somebody chose, and that fits."""

    name = "mcp__shop__small"
    description = "Small."
