"""A language server of one kind of bad behaviour, named by its argument. A line with BAD in it is an error."""

import json
import os
import sys
import threading
import time

KIND = sys.argv[1]
texts: dict[str, str] = {}
answered: set[object] = set()


def send(message: dict[str, object]) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    size = len(body) - 7 if KIND == "wrong-length" and "method" in message else len(body)
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%b" % (size, body))
    sys.stdout.buffer.flush()


def pry(directory: str) -> bool:
    try:
        with open(f"{directory}/pried", "w"):
            return True
    except OSError:
        return False


def errors(text: str) -> list[dict[str, object]]:
    def one(line: int, what: str) -> dict[str, object]:
        place = {"line": line, "character": 0}
        return {"range": {"start": place, "end": place}, "severity": 1, "message": what}

    if KIND == "prying":
        return [one(0, f"bad: wrote {pry(os.getcwd())}, {pry('/usr')}; has keys {'ANTHROPIC_API_KEY' in os.environ}")]
    found = [one(number, f"bad: {line}") for number, line in enumerate(text.splitlines()) if "BAD" in line]
    return found * 5_000 if KIND == "huge" else found


def publish(uri: str, text: str, version: int | None) -> None:
    params: dict[str, object] = {"uri": uri, "diagnostics": errors(text)}
    if KIND == "huge":
        params["diagnostics"] = [{**error, "message": f"{n} {'x' * 1000}"} for n, error in enumerate(errors(text))]
    send({"method": "textDocument/publishDiagnostics", "params": params | ({"version": version} if version else {})})


def changed(uri: str, text: str, version: int) -> None:
    before, texts[uri] = texts.get(uri), text
    match KIND:
        case "silent" | "late":
            if KIND == "late" and before is None:
                register = {"registrations": [{"id": "1", "method": "textDocument/diagnostic"}]}
                threading.Timer(
                    0.1, send, [{"id": "r", "method": "client/registerCapability", "params": register}]
                ).start()
        case "once" if before is not None:
            pass
        case "unversioned" | "once":
            publish(uri, text, None)
        case "stale":  # what it was working on comes first
            publish(uri, before or "", None)
            threading.Timer(0.1, publish, [uri, text, None]).start()
        case "old-version" if before is not None:
            publish(uri, before, version - 1)
            threading.Timer(0.1, publish, [uri, text, version]).start()
        case "crash" if before is not None:
            os._exit(7)
        case "hungry":
            publish(uri, text if bytearray(400 << 20) else "", version)
        case "asks":
            for number, method in enumerate(
                ("workspace/configuration", "workspace/applyEdit", "window/no", "x/refresh")
            ):
                send({"id": f"q{number}", "method": method, "params": {"items": [{"section": "a.b"}]}})
            threading.Thread(target=publish_when_answered, args=(uri, text, version)).start()
        case _:
            publish(uri, text, version)


def publish_when_answered(uri: str, text: str, version: int) -> None:
    while len(answered) < 4:
        time.sleep(0.01)
    publish(uri, text, version)


def handle(message: dict) -> None:
    method, params = message.get("method", ""), message.get("params") or {}
    document = params.get("textDocument", {})
    match method:
        case "":
            answered.add(message["id"])
        case "initialize" if KIND == "no-start":
            sys.exit("it does not know how")
        case "initialize":
            able = {"renameProvider": True, "definitionProvider": True, "textDocumentSync": 1}
            send({"id": message["id"], "result": {"capabilities": able}})
        case "textDocument/didOpen":
            changed(document["uri"], document["text"], document["version"])
        case "textDocument/didChange":
            changed(document["uri"], params["contentChanges"][0]["text"], document["version"])
        case "textDocument/diagnostic":
            send({"id": message["id"], "result": {"kind": "full", "items": errors(texts[document["uri"]])}})
        case "textDocument/rename":
            send({"id": message["id"], "result": json.loads(os.environ["FAKE_EDIT"])})
        case "exit":
            sys.exit()
        case "shutdown":
            send({"id": message["id"], "result": None})
        case _ if "id" in message:
            send({"id": message["id"], "error": {"code": -32601, "message": f"no {method}"}})


while header := sys.stdin.buffer.readline():
    sys.stdin.buffer.readline()
    handle(json.loads(sys.stdin.buffer.read(int(header.split(b":")[1]))))
