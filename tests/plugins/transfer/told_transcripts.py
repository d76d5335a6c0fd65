"""One conversation as each program would have written it: a prompt with an image, a reply with thinking and two calls,
one of which fails, a to-do list, a compaction, a sub-agent where the program has them, and a last reply."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from sagent.plugins.transfer.steps import Program

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IDS: Mapping[Program, str] = {
    "claude": "8cac5ffd-b9ff-4cdb-b323-360ba030a03d",
    "codex": "01a23236-1500-7820-9be9-2de21343ccf7",
    "gemini": "2026-12-01T15-29-18a6f098",
    "opencode": "ses_dcdc71c97ffepRdV6xqcqmYPnd",
    "pi": "01a23238-8f6c-72ac-8c71-62e611c9ea6a",
}
TODO = [{"content": "one", "status": "completed"}, {"content": "two", "status": "in_progress"}]
AT = "2026-12-01T15:24:30.579Z"
Line = dict[str, object]


def write(file: Path, lines: Iterable[object]) -> Path:
    """Write lines of JSON."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    return file


def claude_lines() -> list[Line]:
    """The lines of Claude Code."""
    lines: list[Line] = []

    def add(kind: str, role: str, content: object, **more: Any) -> None:
        message: Line = {"role": role, "content": content, **more.pop("message", {})}
        above = f"u{len(lines) - 1}" if lines else None
        line: Line = {
            "parentUuid": above,
            "isSidechain": False,
            "type": kind,
            "message": message,
            "uuid": f"u{len(lines)}",
        }
        lines.append(
            {**line, "timestamp": AT, "cwd": "/there", "sessionId": IDS["claude"], "version": "2.1.197", **more}
        )

    def reply(number: int, *content: object) -> None:
        usage = {"input_tokens": 100, "output_tokens": 10, "cache_read_input_tokens": 50}
        about = {"id": f"msg_{number}", "model": "claude-sonnet-4-6", "usage": usage}
        for block in content:
            add("assistant", "assistant", [block], message=about)

    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    add("user", "user", [{"type": "text", "text": "please look"}, image])
    reply(
        1,
        {"type": "thinking", "thinking": "I should look.", "signature": "s"},
        {"type": "text", "text": "Looking."},
        {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "a.txt"}},
        {"type": "tool_use", "id": "toolu_2", "name": "Bash", "input": {"command": "exit 3"}},
    )
    add("user", "user", [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "alpha"}])
    add("user", "user", [{"type": "tool_result", "tool_use_id": "toolu_2", "content": "failed", "is_error": True}])
    reply(2, {"type": "tool_use", "id": "toolu_3", "name": "TodoWrite", "input": {"todos": TODO}})
    add("user", "user", [{"type": "tool_result", "tool_use_id": "toolu_3", "content": "written"}])
    reply(3, {"type": "tool_use", "id": "toolu_4", "name": "Agent", "input": {"prompt": "look closer"}})
    add(
        "user",
        "user",
        [{"type": "tool_result", "tool_use_id": "toolu_4", "content": [{"type": "text", "text": "seen"}]}],
    )
    boundary: Line = {"trigger": "manual", "preTokens": 900, "postTokens": 50, "preservedMessages": None}
    link: Line = {"parentUuid": None, "logicalParentUuid": f"u{len(lines) - 1}", "uuid": f"u{len(lines)}"}
    lines.append({**link, "type": "system", "subtype": "compact_boundary", "compactMetadata": boundary})
    add("user", "user", "What came before, in short.", isCompactSummary=True)
    add("user", "user", "and now?")
    reply(4, {"type": "text", "text": "All done."})
    return [*lines, {"type": "custom-title", "customTitle": "A look"}]


def tell_claude(home: Path) -> Path:
    """Write a session of Claude Code with a sub-agent."""
    file = write(home / f".claude/projects/-there/{IDS['claude']}.jsonl", claude_lines())
    below = file.with_suffix("") / "subagents" / "agent-a1.jsonl"
    asked: Line = {"parentUuid": None, "isSidechain": True, "type": "user", "uuid": "c0",
                   "message": {"role": "user", "content": "look closer"}, "sessionId": IDS["claude"]}  # fmt: skip
    said: Line = {"parentUuid": "c0", "isSidechain": True, "type": "assistant", "uuid": "c1",
                  "message": {"id": "msg_c", "role": "assistant", "model": "claude-haiku-4-5",
                              "content": [{"type": "text", "text": "seen"}]}}  # fmt: skip
    write(below, [asked, said])
    write(below.with_suffix(".meta.json"), [{"agentType": "general-purpose", "toolUseId": "toolu_4"}])
    return file


def codex_lines(name: str, parent: str = "") -> list[Line]:
    """The lines of codex."""
    lines: list[Line] = []

    def add(kind: str, **payload: object) -> None:
        lines.append({"timestamp": AT, "type": kind, "payload": payload})

    def said(role: str, text: str, *more: object, **about: object) -> None:
        block: Line = {"type": "output_text" if role == "assistant" else "input_text", "text": text}
        add("response_item", type="message", role=role, content=[block, *more], **about)

    def called(number: int, tool: str, arguments: object) -> None:
        add("response_item", type="function_call", name=tool, arguments=json.dumps(arguments), call_id=f"call_{number}")

    def returned(number: int, text: str) -> None:
        add("response_item", type="function_call_output", call_id=f"call_{number}", output=text)

    source: object = {"subagent": {"thread_spawn": {"parent_thread_id": parent}}} if parent else "exec"
    add("session_meta", id=name, cwd="/there", cli_version="0.169.0", model_provider="openai", source=source,
        base_instructions={"text": "You are codex."})  # fmt: skip
    add("turn_context", model="gpt-5.5")
    if parent:
        said("user", "look closer")
        said("assistant", "seen")
        return lines
    said("developer", "<permissions instructions> Obey.")
    said("user", "<environment_context>\n</environment_context>")
    said("user", "please look", {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"}, id="m1")
    add("response_item", type="reasoning", summary=[{"type": "summary_text", "text": "I should look."}],
        encrypted_content="e")  # fmt: skip
    said("assistant", "Looking.")
    called(1, "exec_command", {"cmd": "cat a.txt"})
    called(2, "exec_command", {"cmd": "exit 3"})
    add("token_usage_record", usage={"input_tokens": 150, "cached_input_tokens": 50, "output_tokens": 10})
    returned(1, "Process exited with code 0\nOutput:\nalpha")
    returned(2, "Process exited with code 3\nOutput:\nfailed")
    called(3, "update_plan", {"plan": [{"step": each["content"], "status": each["status"]} for each in TODO]})
    returned(3, "Plan updated")
    add("compacted", message="What came before, in short.", replacement_history=[{"id": "m1", "role": "user"}])
    said("user", "and now?")
    said("assistant", "All done.")
    return lines


def tell_codex(home: Path) -> Path:
    """Write a session of codex with a sub-agent."""
    folder = home / ".codex/sessions/2026/12/01"
    child = "01a23299-1500-7820-9be9-2de21343ccf7"
    write(folder / f"rollout-2026-12-01T15-26-00-{child}.jsonl", codex_lines(child, IDS["codex"]))
    return write(folder / f"rollout-2026-12-01T15-25-34-{IDS['codex']}.jsonl", codex_lines(IDS["codex"]))


def tell_gemini(home: Path) -> Path:
    """Write a session of Gemini CLI."""

    def call(name: str, tool: str, arguments: object, output: str, status: str = "success") -> Line:
        answer = {"functionResponse": {"id": name, "name": tool, "response": {"output": output}}}
        return {"id": name, "name": tool, "args": arguments, "result": [answer], "status": status}

    todos = [{"description": each["content"], "status": each["status"]} for each in TODO]
    reply: Line = {"id": "g1", "timestamp": AT, "type": "gemini", "content": "Looking.", "model": "gemini-2.5-flash"}
    full: Line = {
        **reply,
        "thoughts": [{"subject": "", "description": "I should look."}],
        "tokens": {"input": 150, "output": 10, "cached": 50, "thoughts": 3},
        "toolCalls": [
            call("r1", "read_file", {"file_path": "a.txt"}, "alpha"),
            call("r2", "run_shell_command", {"command": "exit 3"}, "failed", "error"),
            call("r3", "write_todos", {"todos": todos}, "written"),
        ],
    }
    image = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
    lines: list[Line] = [
        {"sessionId": IDS["gemini"], "projectHash": "7b9e", "startTime": AT, "kind": "main"},
        {"$set": {"messages": [{"id": "c", "type": "user", "content": [{"text": "<session_context>\nToday"}]}]}},
        {"id": "p1", "timestamp": AT, "type": "user", "content": [{"text": "please look"}, image]},
        reply,
        full,
        {"id": "a1", "type": "user", "content": [{"functionResponse": {"id": "r1", "response": {"output": "alpha"}}}]},
        {"$set": {"lastUpdated": AT, "summary": "A look"}},
        {"id": "p2", "timestamp": AT, "type": "user", "content": [{"text": "and now?"}]},
        {"id": "g2", "timestamp": AT, "type": "gemini", "content": "All done.", "model": "gemini-2.5-flash"},
    ]
    (home / ".gemini/tmp/work").mkdir(parents=True)
    (home / ".gemini/tmp/work/.project_root").write_text("/there")
    return write(home / f".gemini/tmp/work/chats/session-{IDS['gemini']}.jsonl", lines)


def tell_pi(home: Path) -> Path:
    """Write a session of pi, with a branch that was left."""
    lines: list[Line] = [{"type": "session", "version": 3, "id": IDS["pi"], "timestamp": AT, "cwd": "/there"}]

    def add(kind: str, above: int | None = None, **more: object) -> None:
        place = len(lines) - 1 if above is None else above
        parent = f"e{place}" if place else None
        lines.append({"type": kind, "id": f"e{len(lines)}", "parentId": parent, "timestamp": AT, **more})

    def say(role: str, *content: object, above: int | None = None, **more: object) -> None:
        add("message", above, message={"role": role, "content": content, **more})

    usage = {"input": 100, "output": 10, "cacheRead": 50, "cacheWrite": 0, "cost": {"total": 0.25}}
    model: dict[str, Any] = {"provider": "anthropic", "model": "claude-sonnet-4-6", "usage": usage}
    say("system", {"type": "text", "text": "You are pi."})
    say("user", {"type": "text", "text": "please look"}, {"type": "image", "data": PIXEL, "mimeType": "image/png"})
    say(
        "assistant",
        {"type": "thinking", "thinking": "I should look.", "thinkingSignature": "s"},
        {"type": "text", "text": "Looking."},
        {"type": "toolCall", "id": "t1", "name": "read", "arguments": {"path": "a.txt"}},
        {"type": "toolCall", "id": "t2", "name": "bash", "arguments": {"command": "exit 3"}},
        **model,
        stopReason="toolUse",
    )
    say("toolResult", {"type": "text", "text": "alpha"}, toolCallId="t1", isError=False)
    say("toolResult", {"type": "text", "text": "failed"}, toolCallId="t2", isError=True)
    say("assistant", {"type": "text", "text": "Left."}, **model, stopReason="stop")
    add("compaction", 5, summary="What came before, in short.", firstKeptEntryId="e6", tokensBefore=900)
    add("session_info", name="A look")
    say("user", {"type": "text", "text": "and now?"})
    say("assistant", {"type": "text", "text": "All done."}, **model, stopReason="stop")
    return write(home / f".pi/agent/sessions/--there--/2026-12-01T15-28-17-266Z_{IDS['pi']}.jsonl", lines)


def tell_opencode(home: Path) -> Path:
    """Write a database of opencode, with a sub-agent."""
    file = home / ".local/share/opencode/opencode.db"
    file.parent.mkdir(parents=True)
    with closing(sqlite3.connect(file)) as database, database:
        database.execute(
            "create table session (id text, parent_id text, slug text, directory text, title text, version text,"
            " time_created integer, time_updated integer)"
        )
        database.execute("create table message (id text, session_id text, time_created integer, data text)")
        database.execute("create table part (id text, message_id text, session_id text, data text)")
        database.execute("create table todo (session_id text, content text, status text, position integer)")
        main, child = IDS["opencode"], "ses_child"
        database.execute(
            "insert into session values (?,?,?,?,?,?,1,2)", (main, None, "calm", "/there", "A look", "1.18")
        )
        database.execute(
            "insert into session values (?,?,?,?,?,?,1,2)", (child, main, "sailor", "/there", "sub", "1.18")
        )
        numbers = iter(range(100, 999))

        def add(session: str, about: Line, *parts: Line) -> None:
            name = f"msg_{next(numbers)}"
            time = 1_796_138_920_877 + int(name[4:])
            database.execute("insert into message values (?,?,?,?)", (name, session, time, json.dumps(about)))
            for part in parts:
                row = (f"prt_{next(numbers)}", name, session, json.dumps(part))
                database.execute("insert into part values (?,?,?,?)", row)

        def tool(name: str, called: str, given: object, **state: object) -> Line:
            return {"type": "tool", "tool": name, "callID": called, "state": {"input": given, **state}}

        def text(words: str, **more: object) -> Line:
            return {"type": "text", "text": words, **more}

        tokens = {"input": 100, "output": 10, "reasoning": 0, "cache": {"read": 50, "write": 0}}
        reply: Line = {"role": "assistant", "providerID": "anthropic", "modelID": "claude-sonnet-4-6", "tokens": tokens,
                       "cost": 0.25}  # fmt: skip
        image: Line = {"type": "file", "mime": "image/png", "url": f"data:image/png;base64,{PIXEL}"}
        add(main, {"role": "user"}, text("Called the Read tool", synthetic=True), image, text("please look"))
        add(
            main,
            {**reply, "finish": "tool-calls"},
            {"type": "step-start"},
            {"type": "reasoning", "text": "I should look."},
            text("Looking."),
            tool("read", "call_1", {"filePath": "a.txt"}, status="completed", output="alpha"),
            tool("bash", "call_2", {"command": "exit 3"}, status="error", error="failed"),
            tool("task", "call_3", {"prompt": "look closer"}, status="completed", output="seen",
                 metadata={"sessionId": child}),
        )  # fmt: skip
        add(child, {"role": "user"}, text("look closer"))
        add(child, {**reply, "finish": "stop"}, text("seen"))
        add(main, {"role": "user"}, {"type": "compaction", "auto": False})
        add(main, {**reply, "summary": True}, text("What came before, in short."))
        add(main, {"role": "user"}, text("and now?"))
        add(main, {**reply, "finish": "stop"}, text("All done."))
        for place, each in enumerate(TODO):
            database.execute("insert into todo values (?,?,?,?)", (main, each["content"], each["status"], place))
    return file


TELL: Mapping[Program, Callable[[Path], Path]] = {
    "claude": tell_claude,
    "codex": tell_codex,
    "gemini": tell_gemini,
    "opencode": tell_opencode,
    "pi": tell_pi,
}
