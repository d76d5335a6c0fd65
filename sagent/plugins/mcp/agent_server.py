"""sagent as an MCP server (modelcontextprotocol.io): other agents start, continue and inspect sessions.

Needs sagent[mcp]. There are three tools: `sagent`, `sagent_reply` and `sagent_status`. The server's policy decides what
a session may do. If the client supports elicitation, the policy's questions go to the client's person; otherwise they
are denials. A client before 2026-07-28 is asked while the call waits. A later one gets an `input_required` result, and
the run continues when the call is repeated with the answer.
"""

import asyncio
import secrets
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from typing import TYPE_CHECKING, Literal, TypeAlias, assert_never

from sagent.agent import Agent, Asker
from sagent.agent.asking import outcome
from sagent.errors import SagentError, UsageError
from sagent.events import Event, Result, SessionOpened
from sagent.lib.dataclass import dataclass
from sagent.lib.json import json_dump
from sagent.messages import ToolCall
from sagent.plugins.hosting.asking import question_text
from sagent.plugins.hosting.live import ClientOptions, failure_of, progress_of
from sagent.policy import Ask
from sagent.transcript.event_json import encode_result
from sagent.version import __version__

if TYPE_CHECKING:
    from mcp.server.mcpserver import Context, MCPServer
    from mcp.types import CallToolResult, InputRequiredResult

QUESTION_TIMEOUT_SECONDS = 600.0  # for an answer; after that it is no
_INPUT_REQUIRED = "2026-07-28"  # the first version in which a server cannot send requests
_APPROVAL = "approval"
_RUNS = 200  # that a server remembers
WHOLE = "sagent/result"
"""Key of the object of `--output-format json` in the `_meta` of a result."""
_READ = ("result", "is_error", "error", "session_id", "permission_denials")

ANSWER: dict[str, object] = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "enum": ["allow", "deny"], "title": "Decision"},
        "reason": {"type": "string", "title": "Reason", "description": "What the agent reads when you deny."},
    },
    "required": ["decision"],
}
"""The form for a person's answer, in MCP's elicitation schema."""


Open: TypeAlias = Callable[[ClientOptions, Callable[[Event], None], Asker | None], AbstractAsyncContextManager[Agent]]
"""Opens the agent of a session. Raises SagentError."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question for a person, and the future of its answer: None allows, a text denies and says why."""

    name: str  # by which an asked client comes back to it: an answer counts for this question only
    text: str
    answer: "asyncio.Future[str | None]"


@dataclass(slots=True)
class Run:
    """A prompt at work, or its outcome."""

    name: str  # prefix of its questions' names
    asks: bool  # whether there is a person to ask
    news: "asyncio.Queue[str | Question | None]" = field(default_factory=asyncio.Queue[str | Question | None])
    session: str = ""
    state: Literal["working", "asking", "done", "failed", "interrupted"] = "working"
    doing: str = ""
    usd: float = 0.0
    began: float = field(default_factory=time.monotonic)
    ended: float | None = None
    questions: int = 0
    task: "asyncio.Task[Result] | None" = None
    question: Question | None = None

    def on_event(self, event: Event) -> None:
        if isinstance(event, SessionOpened) and event.agent == "root":
            self.session = event.session_id
        if said := progress_of(event):
            self.doing = said
            self.news.put_nowait(said)

    def on_end(self, task: "asyncio.Task[Result]") -> None:
        """Record whether the task succeeded, and end its event stream."""
        self.ended = time.monotonic()
        if task.cancelled():
            self.state = "interrupted"
        elif task.exception() is not None or task.result().is_error:
            self.state = "failed"
        else:
            self.state = "done"
        self.news.put_nowait(None)

    async def ask(self, call: ToolCall, ask: Ask) -> str | None:
        """Ask the person about a call, and wait for the answer."""
        self.questions += 1
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        question = Question(f"{self.name}.{self.questions}", question_text(call, ask), answer)
        self.state = "asking"
        self.news.put_nowait(question)
        try:
            async with asyncio.timeout(QUESTION_TIMEOUT_SECONDS):
                return await question.answer
        except TimeoutError:
            return f"the person did not answer within {QUESTION_TIMEOUT_SECONDS:g} s"
        finally:
            self.state = "working"


class Sessions:
    """The runs of one server."""

    def __init__(self, open_agent: Open) -> None:
        self._open = open_agent
        self._runs: dict[str, Run] = {}

    def begin(self, options: ClientOptions, prompt: str, *, asks: bool) -> Run:
        """Start to work on a prompt."""
        run = Run(secrets.token_urlsafe(16), asks)
        for name in [name for name, old in self._runs.items() if old.task and old.task.done()][:-_RUNS]:
            del self._runs[name]
        self._runs[run.name] = run
        run.task = asyncio.create_task(self._work(run, options, prompt))
        run.task.add_done_callback(run.on_end)
        return run

    def find(self, question: str | None) -> Run | None:
        """Return the run that asked a question."""
        return self._runs.get((question or "").partition(".")[0])

    def status(self, session: str | None) -> list[dict[str, object]]:
        """Return the state or outcome of each run, the latest last."""
        return [
            {"session_id": run.session, "state": run.state, "doing": run.doing, "cost_usd": run.usd,
             "seconds": round((run.ended or time.monotonic()) - run.began, 1)}
            for run in self._runs.values() if session in (None, run.session)
        ]  # fmt: skip

    async def aclose(self) -> None:
        """Interrupt what still runs, and wait until its sessions are closed."""
        running = [run.task for run in self._runs.values() if run.task is not None and not run.task.done()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _work(self, run: Run, options: ClientOptions, prompt: str) -> Result:
        if not prompt.strip():
            raise UsageError("prompt is empty: describe the task.")
        async with self._open(options, run.on_event, run.ask if run.asks else None) as agent:

            def count(_: Event) -> None:
                run.usd = float(agent.ledger.cost().total)

            agent.listen(count)
            result = await outcome(agent.run(prompt), agent.wait)
            run.usd = float(result.cost.total)
            return result


def make_server(sessions: Sessions) -> "MCPServer":
    """Return the server with its three tools."""
    from mcp.server import MCPServer
    from mcp.server.mcpserver import Context
    from mcp.types import CallToolResult, InputRequiredResult, ToolAnnotations

    server = MCPServer("sagent", version=__version__, log_level="ERROR")

    async def sagent(
        prompt: str,
        context: Context,
        cwd: str | None = None,
        model: str | None = None,
        max_budget_usd: float | None = None,
    ) -> CallToolResult | InputRequiredResult:
        return await _answer(sessions, ClientOptions(None, cwd or None, model or None, max_budget_usd), prompt, context)

    async def sagent_reply(
        session_id: str, prompt: str, context: Context, max_budget_usd: float | None = None
    ) -> CallToolResult | InputRequiredResult:
        return await _answer(sessions, ClientOptions(session_id, max_budget_usd=max_budget_usd), prompt, context)

    async def sagent_status(session_id: str | None = None) -> CallToolResult:
        found = sessions.status(session_id or None)
        return _result(json_dump(found), {"runs": found})

    server.add_tool(
        sagent,
        description="Have the coding agent sagent do a task in a directory: it reads, edits and runs code there. "
        "Returns its answer, its cost in USD and a session_id. max_budget_usd bounds what the session may cost.",
    )
    server.add_tool(sagent_reply, description="Continue a sagent session, which remembers the conversation and work.")
    server.add_tool(
        sagent_status,
        description="What the sessions of this server are doing: state, last tool call, cost in USD.",
        annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
    )
    return server


async def _answer(
    sessions: Sessions, options: ClientOptions, prompt: str, context: "Context"
) -> "CallToolResult | InputRequiredResult":
    """Begin a run, or continue the one with an open question, up to its result or its next question."""
    run = sessions.find(context.request_state)
    if context.request_state is not None and run is None:
        return _result("The server has been restarted since it asked; what the session did is in its log.", None)
    if run is None:
        run = sessions.begin(options, prompt, asks=_can_ask(context))
    elif run.question is not None:
        if run.question.name != context.request_state:  # an earlier answer, repeated
            return _input_required(run.question)
        _take(run.question, (context.input_responses or {}).get(_APPROVAL))
        run.question = None
    assert run.task is not None
    try:
        while (news := await run.news.get()) is not None:
            match news:
                case str():
                    await context.report_progress(round(time.monotonic() - run.began, 3), None, news)
                case Question():
                    if (context.protocol_version or "") >= _INPUT_REQUIRED:
                        run.question = news
                        return _input_required(news)
                    _take(news, await _elicit(context, news.text))
                case _:
                    assert_never(news)
        run.news.put_nowait(None)  # for the same request, repeated
        return _result("The run was interrupted.", None) if run.task.cancelled() else _finished(run.task.result())
    except SagentError as error:
        return _result(str(error), {"is_error": True, "error": {"kind": error.kind, "message": str(error)}})
    except OSError as error:
        text = failure_of(error)
        return _result(text, {"is_error": True, "error": {"kind": "failed", "message": text}})
    except BaseException:  # cancelled, or the client is unreachable: nobody waits for the run any more
        run.task.cancel()
        await asyncio.wait([run.task])
        raise


def _can_ask(context: "Context") -> bool:
    """Return True if the client can show its person a form. (Before there were modes, `elicitation` had no members.)"""
    capabilities = context.client_capabilities
    can = capabilities.elicitation if capabilities is not None else None
    return can is not None and (can.form is not None or can.url is None)


async def _elicit(context: "Context", text: str) -> object:
    """Ask while the call waits, for clients before 2026-07-28. A failure allows nothing."""
    from mcp import MCPError

    try:
        return await context.session.elicit_form(text, ANSWER, context.request_id)
    except (MCPError, ValueError):  # ValueError: an invalid answer of the client
        return None


def _take(question: Question, answer: object) -> None:
    """Pass a person's answer on. Only a form that says allow allows."""
    from mcp.types import ElicitResult

    if question.answer.done():
        return
    if not isinstance(answer, ElicitResult) or answer.action != "accept":
        question.answer.set_result("the person declined")
        return
    content = answer.content or {}
    if content.get("decision") == "allow":
        question.answer.set_result(None)
    else:
        question.answer.set_result(str(content.get("reason") or "") or "the person said no")


def _input_required(question: Question) -> "InputRequiredResult":
    from mcp.types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

    request = ElicitRequest(params=ElicitRequestFormParams(message=question.text, requested_schema=ANSWER))
    return InputRequiredResult(input_requests={_APPROVAL: request}, request_state=question.name)


def _finished(result: Result) -> "CallToolResult":
    whole = encode_result(result)
    names = ("total", "run", "unpriced") if result.cost.unpriced else ("total", "run")
    cost = {name: whole["cost_usd"][name] for name in names}
    shown: dict[str, object] = {name: whole[name] for name in _READ}  # many clients show their model nothing else
    shown["cost_usd"] = cost
    said = [result.content] if result.content else []
    if result.error is not None:
        said.append(f"Error ({result.error.kind}): {result.error.message}")
    least = "at least " if result.cost.unpriced else ""
    said.append(f"(session_id {result.session_id}, {least}${result.cost.total:.4f})")
    return _result("\n\n".join(said), shown, {WHOLE: whole})


def _result(text: str, structured: dict[str, object] | None, meta: dict[str, object] | None = None) -> "CallToolResult":
    from mcp.types import CallToolResult, TextContent

    failed = structured is None or bool(structured.get("is_error"))
    said = TextContent(type="text", text=text)
    return CallToolResult(content=[said], structured_content=structured, is_error=failed, _meta=meta)
