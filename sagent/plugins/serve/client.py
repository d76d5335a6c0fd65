"""A client of `sagent serve`. Made by scripts/make_clients.py from openapi.json; do not edit.

with Client(url, token) as client:
    session = client.create_session({"text": "Fix the tests"})
    for event in client.stream_events(session["id"]):
        ...
"""

import json
from collections.abc import Iterator, Mapping
from time import sleep
from typing import Any, Literal, NotRequired, Self, TypedDict
from urllib.parse import quote

import httpx2

from sagent.lib.dataclass import dataclass


class NewSession(TypedDict):
    """Everything is optional: what is left out is as the server was started."""

    cwd: NotRequired[str]
    model: NotRequired[str]
    effort: NotRequired[Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]]
    permission_mode: NotRequired[Literal["plan", "ask", "edit", "auto", "full"]]
    max_budget_usd: NotRequired[float]
    text: NotRequired[str]


class NewMessage(TypedDict):
    text: str
    moment: NotRequired[Literal["now", "next", "idle"]]
    agent: NotRequired[str]


class Sent(TypedDict):
    session: str
    state: Literal["started", "sent"]


class Interrupt(TypedDict):
    agent: NotRequired[str]


class Answer(TypedDict):
    """For an approval `decision`, for an inquiry or a plan `answer` (the text), or `decision` 'deny' to leave it
    unanswered."""

    decision: NotRequired[Literal["allow", "deny"]]
    scope: NotRequired[Literal["once", "session", "always"]]
    reason: NotRequired[str]
    answer: NotRequired[str]


class Action(TypedDict):
    type: Literal["switch", "mode", "compact", "consult", "background", "cancel", "stop"]
    agent: NotRequired[str]
    model: NotRequired[str]
    effort: NotRequired[Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]]
    advisor: NotRequired[str]
    permission_mode: NotRequired[Literal["plan", "ask", "edit", "auto", "full"]]
    hints: NotRequired[str]
    question: NotRequired[str]
    call_id: NotRequired[str]


class Rewind(TypedDict):
    point: str
    what: NotRequired[Literal["both", "conversation", "files"]]
    preview: NotRequired[bool]


class Session(TypedDict):
    id: str
    cwd: str
    title: str
    state: Literal["idle", "working", "asking", "closed"]
    model: NotRequired[str]
    effort: NotRequired[str]
    permission_mode: NotRequired[Literal["plan", "ask", "edit", "auto", "full"]]
    max_budget_usd: NotRequired[float | None]
    cost_usd: NotRequired["Cost"]
    agents: list["Agent"]
    questions: list["Question"]


class Sessions(TypedDict):
    sessions: list["Session"]


class Agent(TypedDict):
    path: str
    state: Literal["idle", "working", "ended"]
    model: str
    turns: int
    usd: float
    context_tokens: NotRequired[int]
    window: NotRequired[int | None]
    waits: NotRequired[str]
    jobs: NotRequired[list[dict[str, Any]]]


class Question(TypedDict):
    id: str
    agent: str
    kind: Literal["approval", "inquiry", "plan"]
    text: str
    path: NotRequired[str]
    diff: NotRequired[str]
    tool: NotRequired[str]
    call_id: NotRequired[str]
    reason: NotRequired[str]
    wants: NotRequired[list[str]]
    rules: NotRequired[list[str]]
    scopes: NotRequired[list[Literal["once", "session", "always"]]]
    options: NotRequired[list[str]]
    multiple: NotRequired[bool]
    plan: NotRequired[str]


class Cost(TypedDict):
    """USD. `unpriced` names models without a known price: then it is a minimum. `unbilled` was sent and may be
    billed."""

    total: float
    executor: NotRequired[float]
    advisor: NotRequired[float]
    other: NotRequired[float]
    by_role: dict[str, float]
    by_agent: dict[str, float]
    by_model: dict[str, float]
    unpriced: NotRequired[list[str]]
    unbilled: NotRequired[float]


class Event(TypedDict):
    """An event as `sagent --output-format stream-json` prints it: `type`, `agent` (a path), and the members of its
    type, of which those that most have are listed. See docs/streaming.md."""

    type: Literal[
        "session",
        "received",
        "text_delta",
        "thinking_delta",
        "reply_finished",
        "retrying",
        "tool_started",
        "tool_progress",
        "tool_finished",
        "advice_delta",
        "advice",
        "denied",
        "switched",
        "notice",
        "result",
    ]
    agent: str
    id: NotRequired[str]
    text: NotRequired[str]
    message: NotRequired[dict[str, Any]]
    call_id: NotRequired[str]
    name: NotRequired[str]
    arguments: NotRequired[dict[str, Any]]
    is_error: NotRequired[bool]
    seconds: NotRequired[float]
    diff: NotRequired[str]
    summary: NotRequired[str]
    usd: NotRequired[float | None]
    level: NotRequired[str]
    result: NotRequired[str]
    stop_reason: NotRequired[str]
    html: NotRequired[str]


class Transcript(TypedDict):
    events: list["Event"]
    next: str


class Points(TypedDict):
    points: list[dict[str, Any]]


class Changes(TypedDict):
    changed: list["Change"]
    left: list["Untouched"]
    omitted: list["Untouched"]
    commands: bool


class Change(TypedDict):
    path: str
    how: Literal["written", "created", "deleted"]
    added: int
    removed: int


class Untouched(TypedDict):
    path: str
    why: str


class Diff(TypedDict):
    path: str
    diff: str
    note: str
    html: NotRequired[str]


class Problem(TypedDict):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    kind: NotRequired[str]


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """A server-sent event: one of an agent, or with a `name` one of the server's own."""

    id: str
    name: str
    data: dict[str, Any]


class ServeError(Exception):
    """The server did not do it; `problem` says why."""

    def __init__(self, problem: "Problem") -> None:
        super().__init__(problem["detail"])
        self.problem = problem


def _given(query: Mapping[str, object]) -> dict[str, str]:
    given = {name: value for name, value in query.items() if value is not None}
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}


def _problem(answer: httpx2.Response) -> "Problem":
    try:
        return answer.json()
    except ValueError:
        return {"type": "about:blank", "title": "", "status": answer.status_code, "detail": answer.text or "no answer"}


def _events(lines: Iterator[str]) -> Iterator[ServerEvent]:
    id_ = name = data = ""
    for line in lines:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "id":
            id_ = value
        elif field == "event":
            name = value
        elif field == "data":
            data += value
        elif not line and data:
            yield ServerEvent(id_, name, json.loads(data))
            id_ = name = data = ""


class Client:
    """Speaks to a server at a URL with a token."""

    def __init__(self, url: str, token: str) -> None:
        self._http = httpx2.Client(base_url=url, headers={"authorization": f"Bearer {token}"}, timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def _ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
        key: str | None = None,
    ) -> Any:
        headers = {"idempotency-key": key} if key else {}
        answer = self._http.request(method, path, params=_given(query or {}), json=body, headers=headers)
        if answer.is_error:
            raise ServeError(_problem(answer))
        kind = answer.headers.get("content-type", "")
        return answer.json() if kind.startswith("application/json") else answer.text

    def _stream(self, path: str, query: Mapping[str, object], after: str) -> Iterator[ServerEvent]:
        """The events, over connections that break; it ends only with the server's refusal."""
        while True:
            try:
                headers = {"last-event-id": after} if after else {}
                with self._http.stream("GET", path, params=_given(query), headers=headers) as answer:
                    if answer.is_error:
                        answer.read()
                        raise ServeError(_problem(answer))
                    for event in _events(answer.iter_lines()):
                        after = event.id or after
                        yield event
            except httpx2.TransportError:
                pass
            sleep(1)

    def list_sessions(self, *, earlier: bool | None = None) -> "Sessions":
        """List the open sessions, and with `earlier` those on the disk."""
        return self._ask("GET", "/v1/sessions", query={"earlier": earlier})

    def create_session(self, body: "NewSession", *, key: str | None = None) -> "Session":
        """Start a session."""
        return self._ask("POST", "/v1/sessions", body=body, key=key)

    def get_session(self, session: str) -> "Session":
        """Return the state of a session: agents, cost, open questions."""
        return self._ask("GET", f"/v1/sessions/{quote(session)}")

    def close_session(self, session: str) -> None:
        """Interrupt and close a session. It stays on the disk, and a message opens it again."""
        self._ask("DELETE", f"/v1/sessions/{quote(session)}")

    def open_session(self, session: str) -> "Session":
        """Open an earlier session, unless it is open."""
        return self._ask("POST", f"/v1/sessions/{quote(session)}/open")

    def send_message(self, session: str, body: "NewMessage", *, key: str | None = None) -> "Sent":
        """Send a message: it begins a run, or the run in progress reads it. Opens a session that is closed."""
        return self._ask("POST", f"/v1/sessions/{quote(session)}/messages", body=body, key=key)

    def stream_events(
        self, session: str, *, after: str = "", last: int | None = None, html: bool | None = None
    ) -> Iterator[ServerEvent]:
        """Stream the events as server-sent events, from the beginning or after `Last-Event-ID`, then new ones."""
        return self._stream(f"/v1/sessions/{quote(session)}/events", {"last": last, "html": html}, after)

    def get_transcript(
        self,
        session: str,
        *,
        format_: Literal["json", "md", "html"] | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> "Transcript":
        """Return the events so far, or the conversation as Markdown or as a page."""
        return self._ask(
            "GET",
            f"/v1/sessions/{quote(session)}/transcript",
            query={"format": format_, "after": after, "limit": limit},
        )

    def interrupt(self, session: str, body: "Interrupt") -> "Session":
        """Stop the run in progress."""
        return self._ask("POST", f"/v1/sessions/{quote(session)}/interrupt", body=body)

    def list_questions(self, session: str) -> list["Question"]:
        """List the questions that wait for a person's answer."""
        return self._ask("GET", f"/v1/sessions/{quote(session)}/questions")

    def answer_question(self, session: str, question: str, body: "Answer") -> "Session":
        """Answer a question."""
        return self._ask("POST", f"/v1/sessions/{quote(session)}/questions/{quote(question)}", body=body)

    def act(self, session: str, body: "Action") -> "Session":
        """Switch model, effort, advisor or permission mode; compact; consult; stop a call or the turn."""
        return self._ask("POST", f"/v1/sessions/{quote(session)}/actions", body=body)

    def get_cost(self, session: str) -> "Cost":
        """Return the cost of a session, by role, agent and model."""
        return self._ask("GET", f"/v1/sessions/{quote(session)}/cost")

    def list_points(self, session: str) -> "Points":
        """List the requests that the session can be rewound to."""
        return self._ask("GET", f"/v1/sessions/{quote(session)}/points")

    def rewind(self, session: str, body: "Rewind") -> "Changes":
        """Rewind to before a request: conversation, files or both. Can be undone in the same way."""
        return self._ask("POST", f"/v1/sessions/{quote(session)}/rewind", body=body)

    def list_files(self, session: str) -> "Changes":
        """List the files that the session has changed."""
        return self._ask("GET", f"/v1/sessions/{quote(session)}/files")

    def get_diff(self, session: str, *, path: str, html: bool | None = None) -> "Diff":
        """Return the changes to a file in a session."""
        return self._ask("GET", f"/v1/sessions/{quote(session)}/diff", query={"path": path, "html": html})
