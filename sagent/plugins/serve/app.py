"""The HTTP routes. Requests are described in openapi.json and validated against it."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Match, Route

from sagent.agent.tree import Node
from sagent.errors import SagentError, UsageError
from sagent.lib.json import as_object, as_str, wire_bytes
from sagent.messages import user
from sagent.peer import Action, Background, Cancel, Compact, Consult, Stop, Switch
from sagent.plugins.hosting.beats import with_beats
from sagent.plugins.hosting.door import USER, Door
from sagent.plugins.hosting.live import ClientOptions, LiveSession
from sagent.plugins.hosting.problem import problem, problem_of
from sagent.plugins.serve import consent, rewinding
from sagent.plugins.serve.feed import Item
from sagent.plugins.serve.reading import document, flag_of, number_of, read_object, text_of
from sagent.plugins.serve.repeats import Repeats
from sagent.plugins.serve.sessions import Hosted, Sessions
from sagent.plugins.serve.stream import HEARTBEAT_SECONDS, encode

if TYPE_CHECKING:
    from starlette.types import ASGIApp

OPEN = ("/", "/login", "/openapi.json")
"""Paths shown without a token, in addition to the page's own files."""
_HERE = Path(__file__).parent
_PAGE = {"app.js": "text/javascript", "app.css": "text/css", "transcript.css": "text/css"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types rendered"
)


def is_open(path: str) -> bool:
    """Return True if a path is shown without a token."""
    return path in OPEN or path.startswith("/assets/")


def make_app(users: Mapping[str, Sessions], host: str, more: Sequence[Route] = ()) -> "ASGIApp":
    """Make the application. `users` maps each token to the sessions it opens; `more` are additional routes, which need
    a token."""
    repeats = Repeats()

    async def log_in(request: Request) -> Response:
        given = await read_object(request)
        token = as_str(given.get("token"))
        if (key := door.key_of(token)) is None:
            return problem(
                401, "This is not a token of this server: use the address that it printed, which includes the token."
            )
        return _json({"key": key})

    once = repeats.once
    session = "/v1/sessions/{session}"
    routes = [
        Route("/", _show_page),
        Route("/login", log_in, methods=["POST"]),
        Route("/assets/{name}", _asset),
        Route("/openapi.json", _openapi),
        Route("/v1/sessions", _list),
        Route("/v1/sessions", once(_create), methods=["POST"]),
        Route(session, _get),
        Route(session, _close, methods=["DELETE"]),
        Route(f"{session}/open", _open, methods=["POST"]),
        Route(f"{session}/messages", once(_send), methods=["POST"]),
        Route(f"{session}/events", _events),
        Route(f"{session}/transcript", _transcript),
        Route(f"{session}/interrupt", _interrupt, methods=["POST"]),
        Route(f"{session}/questions", _questions),
        Route(f"{session}/questions/{{question}}", _answer, methods=["POST"]),
        Route(f"{session}/actions", _act, methods=["POST"]),
        Route(f"{session}/cost", _cost),
        Route(f"{session}/points", _points),
        Route(f"{session}/rewind", _rewind, methods=["POST"]),
        Route(f"{session}/files", _files),
        Route(f"{session}/diff", _diff),
    ]
    wrong = {404: _missing, 405: _missing, SagentError: _refused, OSError: _refused, 500: _broken}
    door = Door(Starlette(routes=[*routes, *more], exception_handlers=wrong), users, host, is_open)
    return door


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, SagentError | OSError)
    return problem_of(error)


async def _missing(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    matching = (each for each in request.app.routes if each.matches(request.scope)[0] is not Match.NONE)
    allowed = sorted({method for route in matching for method in route.methods or ()})
    headers = {"Allow": ", ".join(allowed)} if status == 405 else {}
    text = f"{request.method} {request.url.path} is not part of this API: see /openapi.json."
    return problem(status, text, headers)


async def _broken(_: Request, error: Exception) -> Response:
    """Answer 500 for an internal error; its traceback goes to stderr."""
    return problem(500, f"{type(error).__name__}: see the server's output.")


async def _show_page(_: Request) -> Response:
    return FileResponse(_HERE / "page" / "index.html", headers={"content-security-policy": _POLICY})


async def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _PAGE:
        return problem(404, f"The page has no {name}.")
    if name == "transcript.css":
        import sagent.plugins.exports.page as shown

        return FileResponse(Path(shown.__file__).with_name("page.css"), media_type="text/css")
    return FileResponse(_HERE / "page" / name, media_type=_PAGE[name])


async def _openapi(_: Request) -> Response:
    return _json(document())


# -- what a request says


def _sessions(request: Request) -> Sessions:
    found = request.scope[USER]
    assert isinstance(found, Sessions)
    return found


def _hosted(request: Request) -> Hosted:
    return _sessions(request).get(request.path_params["session"])


def _json(data: object, status: int = 200) -> Response:
    return Response(wire_bytes(data), status, media_type="application/json")


# -- sessions


async def _list(request: Request) -> Response:
    sessions = _sessions(request)
    shown: list[Mapping[str, object]] = [each.status() for each in sessions.open()]
    if flag_of(request, "earlier"):
        shown += await asyncio.to_thread(sessions.earlier)
    return _json({"sessions": shown})


async def _create(request: Request) -> Response:
    given = await read_object(request, "NewSession")
    cap = given.get("max_budget_usd")
    wanted = ClientOptions(
        cwd=text_of(given, "cwd"),
        model=text_of(given, "model"),
        max_budget_usd=float(cap) if isinstance(cap, int | float) else None,
        permission_mode=text_of(given, "permission_mode"),
        effort=text_of(given, "effort"),
    )
    hosted = await _sessions(request).begin(wanted)
    if text := text_of(given, "text"):
        hosted.require_live().send(text)
    return _json(hosted.status(), 201)


async def _get(request: Request) -> Response:
    return _json(_hosted(request).status())


async def _open(request: Request) -> Response:
    hosted = _hosted(request)
    await _sessions(request).resume(hosted)
    return _json(hosted.status())


async def _close(request: Request) -> Response:
    hosted = _hosted(request)
    await hosted.aclose()
    hosted.touch()
    return Response(status_code=204)


async def _send(request: Request) -> Response:
    hosted, given = _hosted(request), await read_object(request, "NewMessage")
    await _sessions(request).resume(hosted)
    live, text = hosted.require_live(), as_str(given["text"])
    moment = as_str(given.get("moment"), "now")
    assert moment in ("now", "next", "idle")
    if (agent := _agent(live, given)) is not live.agent:
        agent.send(user(text), moment)
        state = "sent"
    else:
        state = "sent" if live.busy else "started"
        live.send(text, moment)
    return _json({"session": hosted.id, "state": state}, 202)


async def _interrupt(request: Request) -> Response:
    hosted, given = _hosted(request), await read_object(request, "Interrupt")
    live = hosted.require_live()
    if (agent := _agent(live, given)) is not live.agent:
        agent.interrupt()
    else:
        live.interrupt()
    return _json(hosted.status())


def _agent(live: LiveSession, body: Mapping[str, object]) -> Node:
    """Return the agent that a request names, by default the root. Raises UsageError."""
    path = as_str(body.get("agent"), "root")
    if (agent := live.agent.tree.get(path)) is None:
        raise UsageError(f"There is no agent {path!r} now; GET the session for the list.")
    return agent


# -- questions and actions


async def _questions(request: Request) -> Response:
    return _json(_hosted(request).questions())


async def _answer(request: Request) -> Response:
    hosted, given = _hosted(request), await read_object(request, "Answer")
    name = request.path_params["question"]
    live = hosted.live
    question = live.questions.get(name) if live else None
    if live is None or question is None or question.answer.done():
        return problem(404, f"The question {name!r} is not open: it was answered, or its call has ended.")
    decision, answer, scope = given.get("decision"), text_of(given, "answer"), text_of(given, "scope")
    if scope and not (decision == "allow" and isinstance(question.about, tuple)):
        raise UsageError("scope is for approvals, with decision allow.")
    if isinstance(question.about, tuple):
        if decision is None or answer is not None:
            raise UsageError("This is an approval: give decision, allow or deny.")
        if decision == "allow":
            consent.allow(live, question.about[1], scope or "once", hosted.keep)
        denied = as_str(given.get("reason")) or "the person said no"
        question.answer.set_result(None if decision == "allow" else denied)
    else:
        if answer is None and decision != "deny":
            raise UsageError("This is a question: give `answer`, or decision deny to leave it unanswered.")
        question.answer.set_result(answer)
    await asyncio.sleep(0)  # let the waiting call continue
    return _json(hosted.status())


async def _act(request: Request) -> Response:
    hosted, given = _hosted(request), await read_object(request, "Action")
    live = hosted.require_live()
    agent, kind = _agent(live, given), as_str(given["type"])
    if kind == "mode":
        mode = as_str(given.get("permission_mode"))
        if mode not in ("plan", "ask", "edit", "auto", "full"):
            raise UsageError("mode needs permission_mode: plan, ask, edit, auto or full.")
        live.policy.mode = mode
    elif kind == "compact" and not agent.running and agent is live.agent:
        await live.agent.compact(as_str(given.get("hints")))
    else:
        agent.apply(_action(kind, given))
    hosted.touch()
    return _json(hosted.status())


def _action(kind: str, body: Mapping[str, object]) -> Action:
    match kind:
        case "switch":
            model, effort, advisor = (text_of(body, name) for name in ("model", "effort", "advisor"))
            return Switch(model=model, effort=effort, advisor=advisor)
        case "compact":
            return Compact(as_str(body.get("hints")))
        case "consult":
            return Consult(as_str(body.get("question")), as_str(body.get("advisor")))
        case "background":
            return Background(as_str(body.get("call_id")))
        case "cancel":
            return Cancel(as_str(body.get("call_id")))
        case _:
            return Stop("stopped by the person")


# -- what happened


async def _events(request: Request) -> Response:
    hosted, html, last = _hosted(request), flag_of(request, "html"), number_of(request, "last", None)
    after = request.headers.get("last-event-id") or request.query_params.get("after", "")

    async def stream() -> AsyncIterator[bytes]:
        fetch = hosted.fetch if html else None
        yield b"retry: 1000\n\n" + encode(Item("", "status", wire_bytes(hosted.status())), fetch)
        async with aclosing(with_beats(hosted.feed.follow(after, last), HEARTBEAT_SECONDS)) as items:
            async for item in items:
                yield b": still here\n\n" if item is None else encode(item, fetch)

    headers = {"x-accel-buffering": "no"}
    return StreamingResponse(stream(), media_type="text/event-stream", headers=headers)


async def _transcript(request: Request) -> Response:
    hosted, kind = _hosted(request), request.query_params.get("format", "json")
    if kind in ("md", "html"):
        from sagent.plugins.exports.export import export_text
        from sagent.transcript.redaction import Redaction

        page, _ = await asyncio.to_thread(export_text, hosted.path, "md" if kind == "md" else "html", Redaction())
        if kind == "md":
            return Response(page, media_type="text/markdown")
        from sagent.plugins.exports.page import policy_of

        # a sandboxed origin, so that its script cannot read the sessions page's key
        policy = f"{policy_of(page.decode())}; frame-ancestors 'none'; sandbox allow-scripts"
        return Response(page, media_type="text/html", headers={"content-security-policy": policy})
    if kind != "json":
        raise UsageError(f"format={kind}: json, md or html.")
    limit = number_of(request, "limit", 200) or 200
    found = await asyncio.to_thread(_page_of, hosted, request.query_params.get("after", ""), limit)
    return _json(found)


def _page_of(hosted: Hosted, after: str, limit: int) -> dict[str, object]:
    """Return up to `limit` events after one, and any further events of the last one's entry, so that the next page
    starts at a new entry."""
    events: list[object] = []
    last = ""
    for item in hosted.feed.past(after):
        if len(events) >= limit and item.id != last:
            return {"events": events, "next": last}
        last = item.id
        events.append({"id": item.id, **as_object(json.loads(item.data))})
    return {"events": events, "next": ""}


async def _cost(request: Request) -> Response:
    hosted = _hosted(request)
    if hosted.is_open:
        return _json(hosted.status()["cost_usd"])
    return _json(await asyncio.to_thread(rewinding.past_cost, hosted.path))


# -- going back


async def _points(request: Request) -> Response:
    return _json({"points": await asyncio.to_thread(rewinding.list_points, _hosted(request).path)})


async def _rewind(request: Request) -> Response:
    hosted, given = _hosted(request), await read_object(request, "Rewind")
    live, what = hosted.require_live(), as_str(given.get("what"), "both")
    found = await rewinding.rewind(live.agent, as_str(given["point"]), what, preview=given.get("preview") is True)
    if what != "files" and not given.get("preview"):
        hosted.feed.report("rewound", {})
    return _json(found)


async def _files(request: Request) -> Response:
    return _json(await rewinding.list_files(_hosted(request).require_live().agent))


async def _diff(request: Request) -> Response:
    agent = _hosted(request).require_live().agent
    if not (path := request.query_params.get("path", "")):
        raise UsageError("Name the file: diff?path=FILE, as GET .../files lists it.")
    return _json(await rewinding.diff(agent, path, html=flag_of(request, "html")))
