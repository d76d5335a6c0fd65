"""An MCP server, of the earlier protocol by default, that does what a test wants: what it offers is in a file.

`python odd_server.py FILE`: FILE is JSON, {"tools": [...], "prompts": [...], "resources": [...]}. Each request that it
is sent, and each answer, is a line of FILE.log. The tool `do` runs Python code, another what FILE's "code" has for it;
"listing" is run before a list is given.
"""

import json
import sys
import threading
from pathlib import Path

OFFER = Path(sys.argv[1])
LOG = OFFER.with_suffix(".log").open("a", buffering=1)
MODERN = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
answers: dict[object, threading.Event] = {}
said: dict[object, dict[str, object]] = {}
lock = threading.Lock()


def send(message: object) -> None:
    with lock:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def raw(data: bytes) -> None:
    """Write a line, and then nothing more for a while."""
    with lock:
        sys.stdout.buffer.write(data + b"\n")
        sys.stdout.flush()
    threading.Event().wait(60)


def ask(method: str, number: object = "q1", **params: object) -> dict[str, object]:
    """What the client says to a request."""
    answers[number] = threading.Event()
    send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    answers[number].wait(60)
    return said.get(number, {})


def notify(method: str, **params: object) -> None:
    send({"jsonrpc": "2.0", "method": method, "params": params})


def result_of(method: str, params: dict, number: object) -> object:
    offer = json.loads(OFFER.read_text())
    match method:
        case "server/discover" if offer.get("discover") == "modern":
            return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **MODERN}
        case "initialize":
            able = {name: {"listChanged": True} for name in ("tools", "prompts", "resources") if name in offer}
            info = {"name": "odd", "version": "1"}
            return {"protocolVersion": "2025-06-18", "capabilities": able, "serverInfo": info}
        case "tools/list" | "prompts/list" | "resources/list":
            exec(offer.get("listing", ""))
            kind = method.partition("/")[0]
            at = int(params.get("cursor", 0))
            every = offer[kind]
            extra = MODERN if offer.get("discover") == "modern" else {}
            end = at + offer.get("page", 2)
            page = {kind: every[at:end], **extra}
            return page if end >= len(every) else {**page, "nextCursor": str(end)}
        case "resources/read":
            return offer["read"][params["uri"]]
        case "prompts/get":
            text = f"{params['name']} {json.dumps(params.get('arguments', {}), sort_keys=True)}"
            content = {"type": "text", "text": text}
            return {"messages": [{"role": "user", "content": content}]}
        case "tools/call":
            names = {**globals(), "params": params, "number": number, "offer": offer}
            exec(offer.get("code", {}).get(params["name"]) or params["arguments"].get("code", ""), names)
            content = [{"type": "text", "text": str(names.get("text", "done"))}]
            return names.get("result") or {"content": content, **(MODERN if offer.get("discover") == "modern" else {})}
        case _:
            raise KeyError(method)


def serve(message: dict) -> None:
    try:
        result = result_of(message["method"], message.get("params", {}), message["id"])
        send({"jsonrpc": "2.0", "id": message["id"], "result": result})
    except KeyError as error:
        send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": f"no {error}"}})


for line in sys.stdin:
    LOG.write(line)
    message = json.loads(line)
    if "method" not in message:
        said[message["id"]] = message
        answers.setdefault(message["id"], threading.Event()).set()
    elif message["method"] == "server/discover" and (how := json.loads(OFFER.read_text()).get("discover")):
        if how == "modern":
            threading.Thread(target=serve, args=[message], daemon=True).start()
        if how == "ends":
            sys.exit("expected initialize")
    elif "id" in message:
        threading.Thread(target=serve, args=[message], daemon=True).start()
