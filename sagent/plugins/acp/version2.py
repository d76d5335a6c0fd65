"""Protocol version 2, a draft: translates updates of version 1.

Source: https://agentclientprotocol.com/protocol/v2/migration. A prompt's response only accepts it; state updates report
the rest. Calls and messages are patched by id, changes of files are git patches, and terminals are the agent's own.
Files and terminals of the client, and modes, are gone.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from sagent.lib.json import as_array, as_object, as_str

Update: TypeAlias = Mapping[str, object]
_PLAN_ID = "todo"


def translate(update: Update) -> Iterator[Update]:
    """Yield the updates of version 2 that replace one of version 1."""
    match update.get("sessionUpdate"):
        case "tool_call" | "tool_call_update":
            yield from _call_updates(update)
        case "plan":
            plan = {"type": "items", "planId": _PLAN_ID, "entries": update["entries"]}
            yield {"sessionUpdate": "plan_update", "plan": plan}
        case "config_option_update":
            yield {**update, "configOptions": config_options(as_array(update["configOptions"]))}
        case "available_commands_update":
            commands = [_describe_command(as_object(each)) for each in as_array(update["availableCommands"])]
            yield {**update, "availableCommands": commands}
        case "current_mode_update":
            return  # modes are a session option in version 2
        case _:
            yield update


def config_options(options: Iterable[object]) -> list[Update]:
    """Return a session's options as version 2 describes them."""
    return [
        {"configId": each["id"], **{name: value for name, value in each.items() if name != "id"}}
        for each in map(as_object, options)
    ]


def permission_request(params: Mapping[str, object]) -> Mapping[str, object]:
    """Return a permission request as version 2 describes it: the call's text content becomes its description."""
    call = as_object(params["toolCall"])
    texts = [text for each in as_array(call.get("content")) if (text := _text(as_object(each)))]
    subject = {"type": "tool_call", "toolCall": {**call, "content": [*_translate_contents(call)]}}
    request = {"title": call["title"], "subject": subject, "options": params["options"]}
    return {"sessionId": params["sessionId"], **request, **({"description": "\n\n".join(texts)} if texts else {})}


def user_message(message_id: str, blocks: Sequence[object]) -> Update:
    """Return the update that reports an accepted prompt."""
    return {"sessionUpdate": "user_message", "messageId": message_id, "content": blocks}


def state_update(name: str, **more: object) -> Update:
    """Return an update of a turn's state: "running", "requires_action" (waiting for the person) or "idle"."""
    return {"sessionUpdate": "state_update", "state": name, **more}


def _call_updates(update: Update) -> Iterator[Update]:
    """Yield the updates of a tool call: first those of its terminal, then the call itself."""
    meta = as_object(update.get("_meta"))
    if info := as_object(meta.get("terminal_info")):
        yield {"sessionUpdate": "terminal_update", "terminalId": info["terminal_id"], "cwd": info["cwd"]}
    if output := as_object(meta.get("terminal_output")):
        data = b64encode(as_str(output["data"]).encode("utf-8", "replace")).decode()
        yield {"sessionUpdate": "terminal_output_chunk", "terminalId": output["terminal_id"], "data": data}
    if end := as_object(meta.get("terminal_exit")):
        code = {"exitCode": end["exit_code"], "signal": end["signal"]}
        yield {"sessionUpdate": "terminal_update", "terminalId": end["terminal_id"], "exitStatus": code}
    call = {name: value for name, value in update.items() if name not in ("_meta", "sessionUpdate", "content")}
    if "content" in update:
        call["content"] = [*_translate_contents(update)]
    if len(call) > 1:  # more than its id
        yield {"sessionUpdate": "tool_call_update", **call}


def _translate_contents(call: Update) -> Iterator[Update]:
    for each in map(as_object, as_array(call.get("content"))):
        yield _git_patch(each) if each["type"] == "diff" else each


def _git_patch(change: Update) -> Update:
    from sagent.tools.change import unified_diff

    path, old, new = as_str(change["path"]), change["oldText"], as_str(change["newText"])
    operation = {"operation": "add" if old is None else "modify", "path": path, "fileType": "text"}
    hunks = unified_diff(as_str(old), new, path, max_lines=None).split("\n", 2)[2:]
    before = "/dev/null" if old is None else path
    head = f"diff --git {path} {path}\n" + ("new file mode 100644\n" if old is None else "")
    text = f"{head}--- {before}\n+++ {path}\n{''.join(hunks)}"
    return {"type": "diff", "changes": [operation], "patch": {"format": "git_patch", "text": text}}


def _describe_command(command: Mapping[str, object]) -> Update:
    hint = as_object(command.get("input"))
    return {"type": "command", **command, **({"input": {"type": "text", **hint}} if hint else {})}


def _text(content: Mapping[str, object]) -> str:
    return as_str(as_object(content.get("content")).get("text"))
