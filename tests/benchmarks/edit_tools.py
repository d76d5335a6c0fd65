"""The edit tools of other programs: how each program is led to a model on loopback, and what it is to be asked for.

What ours takes as `old_string` and `new_string` is translated to each tool's arguments. An edit in another form (a
diff, a patch, search/replace blocks) is handed over as it is, where the tool expects something else.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

from sagent.testing.script import Call, Raw
from sagent.testing.server import Step, Turn
from tests.benchmarks.clients import FLAGS, SAGENT
from tests.tools.near_misses import Case

Edit = Callable[[Case, str], Call | None]
"""A case and its file's path to the call; None where the tool has no words for it."""
DIFFS = ("--- ", "+++ ", "diff --git ", "@@ ", "*** Begin Patch", "<<<<<<< SEARCH")


@dataclass(frozen=True)
class Program:
    """A program from npm ("name@version", "" for ours): its tool, how it reads and edits, and how it is run against an
    address in a home directory with some files."""

    name: str
    package: str
    tool: str
    edit: Edit
    argv: tuple[str, ...]
    read: Callable[[str], Call] | None = None
    environment: Callable[[str], Mapping[str, str]] = lambda _: {}
    files: Callable[[str], Mapping[str, str]] = lambda _: {}
    turn: Callable[[list[Call]], Step] = lambda calls: Turn(calls=tuple(calls))


def quoting(tool: str, path: str, old: str, new: str, everywhere: str, **more: str) -> Edit:
    """The edit of a tool with such parameters."""

    def edit(case: Case, where: str) -> Call:
        flags = {everywhere: True} if case.everywhere else {}
        return Call(tool, {path: where, old: case.old, new: case.new, **flags, **more})

    return edit


def pi_edit(case: Case, where: str) -> Call | None:
    """pi's takes a list, and never more than one place."""
    edits = [{"oldText": case.old, "newText": case.new}]
    return None if case.everywhere else Call("edit", {"path": where, "edits": edits})


def in_another_form(case: Case) -> bool:
    """Whether a diff, a patch or search/replace blocks stand where a text is to be quoted."""
    return not case.new and any(f"\n{case.old}".find(f"\n{mark}") >= 0 for mark in DIFFS)


def hunk(old: str, new: str) -> Iterator[str]:
    """The lines of a hunk that makes the one of the other."""
    before, after = old.split("\n"), new.split("\n")
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from (f" {line}" for line in before[i1:i2])
        else:
            yield from (f"-{line}" for line in before[i1:i2])
            yield from (f"+{line}" for line in after[j1:j2])


def codex_edit(case: Case, where: str) -> Call | None:
    """codex's takes a patch, which is no miss there where it is one of this file."""
    if case.everywhere or case.old == case.new or case.kind in ("apply_patch", "patch that deletes"):
        return None
    if case.old.startswith("*** Begin Patch"):
        other = where.replace(case.name, "other.txt")
        named = case.old.replace(f"File: {case.name}", f"File: {where}").replace("File: other.txt", f"File: {other}")
        return Call("apply_patch", named)
    if case.old.startswith("@@ "):
        lines = case.old.split("\n")
    elif in_another_form(case):
        return Call("apply_patch", case.old)
    else:
        lines = ["@@", *hunk(case.old, case.new)]
    return Call("apply_patch", "\n".join(["*** Begin Patch", f"*** Update File: {where}", *lines, "*** End Patch"]))


def custom_calls(calls: list[Call]) -> Step:
    """codex has a tool without JSON, of which a double knows nothing."""
    items = [
        {
            "type": "custom_tool_call", "id": f"ctc_{at}", "call_id": f"call_{at}", "name": call.name,
            "input": call.arguments, "status": "completed",
        }
        for at, call in enumerate(calls)
    ]  # fmt: skip
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    response = {"id": "resp_1", "object": "response", "status": "completed", "output": items, "usage": usage}
    events: list[dict[str, object]] = [
        {"type": "response.created", "response": {**response, "output": [], "status": "in_progress"}},
        *({"type": "response.output_item.done", "output_index": at, "item": item} for at, item in enumerate(items)),
        {"type": "response.completed", "response": response},
    ]
    text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return Raw(headers=(("content-type", "text/event-stream"),), body=text.encode())


def aider_reply(case: Case, where: str) -> str | None:
    """aider's model writes blocks, which are no miss there where they are right."""
    if case.everywhere or case.kind.startswith("search/replace"):
        return None
    if case.old.startswith("<<<<<<< SEARCH"):
        return f"{where}\n```\n{case.old}\n```\n"
    if in_another_form(case):
        return f"```diff\n{case.old}\n```\n"
    return f"{where}\n```\n<<<<<<< SEARCH\n{case.old}\n=======\n{case.new}\n>>>>>>> REPLACE\n```\n"


def reading(tool: str, path: str) -> Callable[[str], Call]:
    """The call that reads a file."""
    return lambda where: Call(tool, {path: where})


def codex_files(url: str) -> Mapping[str, str]:
    """codex at an endpoint of one's own."""
    return {
        ".codex/config.toml": f'model = "gpt-5.5"\nmodel_provider = "bench"\nanalytics.enabled = false\n'
        f'[model_providers.bench]\nname = "bench"\nbase_url = "{url}/v1"\nenv_key = "OPENAI_API_KEY"\n'
        f'wire_api = "responses"\n'
    }


def pi_files(url: str) -> Mapping[str, str]:
    """pi at an endpoint of one's own."""
    provider = {"baseUrl": url, "api": "anthropic-messages", "apiKey": "k", "models": [{"id": "m"}]}
    return {".pi/agent/models.json": json.dumps({"providers": {"bench": provider}})}


def opencode_files(url: str) -> Mapping[str, str]:
    """opencode at an endpoint of one's own, with nothing that works on files after an edit."""
    options = {"baseURL": f"{url}/v1", "apiKey": "k"}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"m": {"tool_call": True}}}
    quiet = {"autoupdate": False, "snapshot": False, "lsp": False, "formatter": False, "share": "disabled"}
    return {".config/opencode/opencode.json": json.dumps({"provider": {"bench": provider}, **quiet})}


def gemini_files(_: str) -> Mapping[str, str]:
    """Gemini CLI with a key, and without traffic of its own."""
    quiet = {"privacy": {"usageStatisticsEnabled": False}, "general": {"enableAutoUpdate": False}}
    return {".gemini/settings.json": json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}, **quiet})}


PROGRAMS = (
    Program(
        "sagent", "", "Edit",
        quoting("Edit", "file_path", "old_string", "new_string", "replace_all"),
        (*SAGENT, *FLAGS, "go"), reading("Read", "file_path"),
    ),
    Program(
        "Claude Code", "@anthropic-ai/claude-code@2.1.197", "Edit",
        quoting("Edit", "file_path", "old_string", "new_string", "replace_all"),
        ("claude", "-p", "go", "--permission-mode", "acceptEdits"), reading("Read", "file_path"),
        environment=lambda _: {
            "DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    ),
    Program(
        "codex", "@openai/codex@0.169.0", "apply_patch", codex_edit,
        ("codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "go"),
        files=codex_files, turn=custom_calls,
    ),
    Program(
        "Gemini CLI", "@google/gemini-cli@0.61.0", "replace",
        quoting("replace", "file_path", "old_string", "new_string", "allow_multiple", instruction="as discussed"),
        ("gemini", "-p", "go", "--approval-mode", "yolo", "-m", "gemini-2.5-flash"), reading("read_file", "file_path"),
        environment=lambda url: {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_CLI_TRUST_WORKSPACE": "true"},
        files=gemini_files,
    ),
    Program(
        "opencode", "opencode-ai@1.18.33", "edit",
        quoting("edit", "filePath", "oldString", "newString", "replaceAll"),
        ("opencode", "run", "--model", "bench/m", "go"), reading("read", "filePath"), files=opencode_files,
    ),
    Program(
        "pi", "@earendil-works/pi-coding-agent@0.87.1", "edit", pi_edit,
        ("pi", "-p", "--offline", "--provider", "bench", "--model", "m", "go"), reading("read", "path"), files=pi_files,
    ),
)  # fmt: skip
