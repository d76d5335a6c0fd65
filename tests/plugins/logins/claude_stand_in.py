"""A program that speaks what Claude Code 2.1.330 was seen to speak on its pipes, and calls the Messages API.

Standard library only, started with -S -E. It does what our adapter relies on, and what it must prevent: it answers
calls it thinks invalid by itself, and goes on after `max_tokens`.
"""

import contextlib
import http.client
import json
import os
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn
from urllib.parse import urlsplit

OPTIONS = {
    *("-p", "--verbose", "--input-format", "--output-format", "--include-partial-messages", "--no-session-persistence"),
    *("--disable-slash-commands", "--strict-mcp-config", "--setting-sources", "--tools", "--allowedTools", "--model"),
    *("--effort", "--thinking", "--thinking-display"),
}
MODELS = [
    {"value": "default", "resolvedModel": "claude-sonnet-5", "displayName": "Default (recommended)"},
    {"value": "sonnet", "resolvedModel": "claude-sonnet-5", "displayName": "Sonnet"},
    {"value": "opus", "resolvedModel": "claude-opus-4-8", "displayName": "Opus"},
    {"value": "haiku", "resolvedModel": "claude-haiku-5-5", "displayName": "Haiku", "supportsThinkingOff": False},
]
REFUSED = "<tool_use_error>"
UNASKED_SECONDS = 10.0  # before it goes on by itself: it is to be ended by then, and our machine may be busy
REMINDER = "<system-reminder>\nToday's date is 2026-11-21.\n</system-reminder>\n"


def say(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def fail(words: str) -> NoReturn:
    print(words, file=sys.stderr)
    sys.exit(1)


class Failure(Exception):
    def __init__(self, words: str, status: int | None = None, code: str = "unknown") -> None:
        super().__init__(words)
        self.status, self.code = status, code


class Program:
    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options
        self.system: list[str] = []
        self.tools: list[dict[str, Any]] = []
        self.messages: list[dict[str, Any]] = []
        self.unread: list[dict[str, Any]] = []  # lines that came while a request was made of the host
        self.limit: dict[str, Any] | None = None
        self.begun = False

    def run(self) -> None:
        while (line := self.unread.pop(0) if self.unread else self.read()) is not None:
            if line["type"] == "control_request":
                self.set_up(line["request_id"], line["request"])
            elif line["type"] == "assistant":
                self.messages.append({"role": "assistant", "content": line["message"]["content"]})
            elif line["type"] == "user":
                content = line["message"]["content"]
                self.messages.append({"role": "user", "content": content})
                if os.environ.get("STAND_IN_OLD") or line.get("shouldQuery", True):
                    self.turn()
                else:
                    self.result(False, "", None)

    def read(self) -> dict[str, Any] | None:
        line = sys.stdin.buffer.readline()
        return json.loads(line) if line else None

    def ask(self, **request: Any) -> dict[str, Any]:
        """Make a request of the host and wait for its answer."""
        request_id = str(uuid.uuid4())
        say(type="control_request", request_id=request_id, request=request)
        while (line := self.read()) is not None:
            if line["type"] == "control_response" and line["response"]["request_id"] == request_id:
                return line["response"]["response"]
            self.unread.append(line)
        sys.exit(0)

    def mcp(self, method: str, **params: Any) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self.ask(subtype="mcp_message", server_name="sagent", message=message)["mcp_response"]["result"]

    def set_up(self, request_id: str, request: dict[str, Any]) -> None:
        self.system = request["systemPrompt"]
        response = {"subtype": "success", "request_id": request_id, "response": {"models": MODELS}}
        say(type="control_response", response=response)
        self.mcp("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "stand-in"})
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        self.ask(subtype="mcp_message", server_name="sagent", message=note)
        self.tools = self.mcp("tools/list")["tools"]
        say(type="system", subtype="init", claude_code_version="2.1.330", tools=[tool["name"] for tool in self.tools])

    def turn(self) -> None:
        try:
            while True:
                content, stop = self.call()
                self.messages.append({"role": "assistant", "content": content})
                if stop == "tool_use":
                    calls = [block for block in content if block["type"] == "tool_use"]
                    results = [self.use(call) for call in calls]
                    self.messages.append({"role": "user", "content": results})
                    asked = any(result["content"] != REFUSED for result in results)
                    time.sleep(0.05 if asked else UNASKED_SECONDS)
                elif stop == "max_tokens":
                    time.sleep(UNASKED_SECONDS)
                    self.messages.append({"role": "user", "content": "Output token limit hit. Resume directly."})
                else:
                    break
        except Failure as failure:
            text = [{"type": "text", "text": str(failure)}]
            say(type="assistant", error=failure.code, message={"model": "<synthetic>", "content": text})
            if self.begun:
                self.event({"type": "message_delta", "delta": {"stop_reason": None}, "usage": {}})
                self.event({"type": "message_stop"})
            self.result(True, str(failure), failure.status)
            return
        self.result(False, "", None)

    def result(self, is_error: bool, words: str, status: int | None) -> None:
        say(type="result", subtype="success", is_error=is_error, result=words, api_error_status=status)

    def event(self, event: dict[str, Any]) -> None:
        say(type="stream_event", event=event, parent_tool_use_id=None)

    def use(self, block: dict[str, Any]) -> dict[str, Any]:
        """The result of one call: by the host, or refused here."""
        given = {"type": "tool_result", "tool_use_id": block["id"]}
        if not isinstance(block["input"], dict) or not any(tool["name"] == block["name"] for tool in self.tools):
            return {**given, "content": REFUSED, "is_error": True}
        meta = {"claudecode/toolUseId": block["id"]}
        result = self.mcp("tools/call", name=block["name"], arguments=block["input"], _meta=meta)
        blocks = [part if part["type"] == "text" else image(part) for part in result["content"]]
        if result["isError"]:
            texts = [part["text"] for part in blocks if part["type"] == "text"]
            return {**given, "content": "\n".join(texts) or "Unknown error", "is_error": True}
        if sum(len(part.get("text", "")) for part in blocks) > 500_000:
            blocks = [{"type": "text", "text": "<persisted-output>"}]
        return {**given, "content": blocks or "(no output)"}

    def call(self) -> tuple[list[dict[str, Any]], str]:
        """One call of the API: its blocks and why it stopped. Raises Failure."""
        self.begun = False
        blocks: list[dict[str, Any]] = []
        stop = ""
        for event in self.events():
            self.event(event)
            self.begun = True
            match event["type"]:
                case "content_block_start":
                    blocks.append({**event["content_block"]})
                case "content_block_delta":
                    absorb(blocks[-1], event["delta"])
                case "content_block_stop":
                    finish(blocks[-1])
                    say(type="assistant", message={"model": "claude", "content": [blocks[-1]]})
                case "message_delta":
                    stop = event["delta"]["stop_reason"]
                case _:
                    pass
        if not stop:
            raise Failure("API Error: Stream ended without receiving any events")
        return blocks, stop

    def events(self) -> Iterator[dict[str, Any]]:
        url = urlsplit(os.environ["ANTHROPIC_BASE_URL"])
        link = http.client.HTTPConnection(url.hostname or "", url.port)
        try:
            link.request("POST", "/v1/messages?beta=true", json.dumps(self.body()), self.headers())
            answer = link.getresponse()
            if answer.status != 200:
                raise self.refused(answer)
            for line in answer:
                if line.startswith(b"data: ") and (event := json.loads(line[6:]))["type"] != "ping":
                    if event["type"] == "error":
                        raise Failure(f"API Error: {event['error']['message']}")
                    yield event
        except (OSError, http.client.HTTPException) as error:
            raise Failure("API Error: Unable to connect to API (ECONNRESET)", code="server_error") from error
        finally:
            link.close()

    def headers(self) -> dict[str, str]:
        common = {"content-type": "application/json", "anthropic-version": "2023-06-01", "x-pid": str(os.getpid())}
        if key := os.environ.get("ANTHROPIC_API_KEY"):
            return {**common, "x-api-key": key}
        token = os.environ.get("CLAUDE_CODE_OAUTH_TOKEN")
        if not token:
            raise Failure("Not logged in · Please run /login", code="authentication_failed")
        return {**common, "authorization": f"Bearer {token}"}

    def body(self) -> dict[str, Any]:
        messages = [dict(message) for message in self.messages]
        first = messages[0]["content"]
        reminder = {"type": "text", "text": REMINDER}
        messages[0]["content"] = [reminder, *(first if isinstance(first, list) else [{"type": "text", "text": first}])]
        model, effort = self.options.get("--model", "claude-sonnet-5"), self.options.get("--effort")
        if self.options.get("--thinking") == "disabled" and model in ("haiku", "claude-haiku-5-5"):
            effort = "medium"  # it thinks all the same
        tools = [
            {"name": tool["name"], "description": tool["description"][:2048], "input_schema": tool["inputSchema"]}
            for tool in self.tools
        ]
        return {
            "model": model,
            "max_tokens": int(os.environ.get("CLAUDE_CODE_MAX_OUTPUT_TOKENS", "32000")),
            "stream": True,
            "system": [{"type": "text", "text": text} for text in ("You are a Claude agent.", *self.system) if text],
            **({"tools": tools} if tools else {}),
            "messages": messages,
            **({"output_config": {"effort": effort}} if effort else {}),
            **json.loads(os.environ.get("CLAUDE_CODE_EXTRA_BODY", "{}")),
        }

    def refused(self, answer: http.client.HTTPResponse) -> Failure:
        words = answer.read().decode()
        with contextlib.suppress(ValueError, KeyError):
            words = json.loads(words)["error"]["message"]
        status = answer.status
        if status == 401:
            return Failure("Please run /login", status, "authentication_failed")
        if reset := answer.headers.get("anthropic-ratelimit-unified-reset"):
            info = {"status": "rejected", "resetsAt": int(reset), "rateLimitType": "five_hour"}
            say(type="rate_limit_event", rate_limit_info=info)
            return Failure("You've hit your 5-hour limit · resets 4:13pm (UTC)", status, "rate_limit")
        return Failure(f"API Error: {status} {words}", status, "rate_limit" if status == 429 else "unknown")


def image(part: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": part["mimeType"], "data": part["data"]},
    }


def absorb(block: dict[str, Any], delta: dict[str, Any]) -> None:
    for name, value in delta.items():
        if name == "partial_json":
            block["json"] = block.get("json", "") + value
        elif name != "type":
            block[name] = block.get(name, "") + value


def finish(block: dict[str, Any]) -> None:
    raw = block.pop("json", "")
    if block["type"] == "tool_use" and raw:
        try:
            block["input"] = json.loads(raw)
        except ValueError:
            block["input"] = None


def main() -> None:
    options: dict[str, str] = {}
    words = sys.argv[1:]
    while words:
        name = words.pop(0)
        if name not in OPTIONS or (os.environ.get("STAND_IN_ANCIENT") and name == "--thinking-display"):
            fail(f"error: unknown option '{name}'")
        options[name] = words.pop(0) if words and not words[0].startswith("-") else ""
    Program(options).run()


if __name__ == "__main__":
    main()
