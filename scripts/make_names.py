"""The public names: `python scripts/make_names.py` writes docs/reference/names.md; `--check` fails if it would change.

A name has the version since which it is there from the page itself; a new one gets the version that is being made.
"""

import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/reference/names.md"
ROW = re.compile(r"^\| `(?P<name>\w+)` \| (?P<since>\d+\.\d+) \| (?P<stability>stable|provisional) \|", re.MULTILINE)
MODULE = re.compile(r"^### `(?P<path>[\w.]+)`$", re.MULTILINE)
MAX_SUMMARY_CHARS = 140

PROGRAMS = {
    "sagent": (
        "Agent BudgetExceeded ModelError Resources Result RunContext RunLimits SagentError ToolError ToolOutput "
        "UsageError load_config open_agent run_sync run_task tool"
    ),
    "sagent.agent": "Agent Resources RunLimits Tree TreeLimits",
    "sagent.messages": "Document Image Message Opaque Text Thinking ToolCall ToolResult assistant user",
    "sagent.events": (
        "Advice AdviceDelta Advised Denial Denied Event Failure Finished Notice Received ReplyFinished Result "
        "Retrying SessionOpened Switched TextDelta ThinkingDelta ToolFinished ToolProgress ToolStarted"
    ),
    "sagent.model": "Delta Model ModelLimits Provider Reply Request RequestDigest Structuring TextPart ToolSpec",
    "sagent.tool": "Effect RunContext Tool ToolOutput Workspace",
    "sagent.tools": (
        "AgentSelf AgentSend AgentSpawn BackgroundTask Bash Edit FunctionTool Glob Grep List Read TodoWrite Write "
        "agent_tools coding_tools tool"
    ),
    "sagent.providers": (
        "Anthropic ChatProvider DashScope Google MiniMax Moonshot OpenAI OpenAICompatible ResponsesProvider "
        "provider_named"
    ),
    "sagent.policy": "Allow AllowAll Ask Deny Policy Postpone Turn Verdict",
    "sagent.policy.permissions": "PermissionPolicy",
    "sagent.policy.rules": "Rule Rules",
    "sagent.peer": "Action Background Cancel Caller Compact Consult Inject Peer SpawnRequest Status Stop Switch",
    "sagent.errors": (
        "BudgetExceeded ConfigError ModelError SagentError SessionBusy SessionCorrupt SessionNotFound ToolError "
        "UsageError"
    ),
    "sagent.usage": "Charge Cost Usage",
    "sagent.cost.ledger": "Ledger",
    "sagent.cost.prices": "PriceBook",
    "sagent.lib.json": "JsonObject json_freeze_object",
    "sagent.testing": "Line ScriptedModel",
    "sagent.testing.server": "Call Cut Fail FakeProviderServer Received Step Turn",
    "sagent.testing.script": "Call Turn",
    "sagent.testing.model_suite": "ModelSuite ServedModelSuite",
    "sagent.testing.tool_suite": "ToolSuite",
    "sagent.testing.log_suite": "LogSuite",
    "sagent.version": "__version__",
}
"""Names of the core that programs import, by module: stable."""

PROVISIONAL = {
    "sagent.advisor": "Advisor Rules Setup advise",
    "sagent.rewind.restore": "FileChange FileChanges",
    "sagent.session.log": "FileLog Log MemoryLog read_log",
    "sagent.session.entries": "Entry",
    "sagent.session.folds": "history",
    "sagent.session.blobs": "BlobDirectory",
    "sagent.session.store": "Session latest",
    "sagent.context.compaction": "is_summary sum_up",
    "sagent.codec": "decode_message encode_message",
    "sagent.plugins.batches": "Batches",
    "sagent.plugins.clouds": "Azure Bedrock Foundry Vertex VertexAnthropic",
    "sagent.plugins.code": "Code RepoMap",
    "sagent.plugins.frontends": "AGUIRequest RunResponse UIRequest respond",
    "sagent.plugins.functions": "FunctionModel",
    "sagent.plugins.guardrails": "Check guarded",
    "sagent.plugins.lab.replay": "Conditions replay rerun",
    "sagent.plugins.local": "LlamaCpp SelfHosted",
    "sagent.plugins.local.selfhosted": "read_weights",
    "sagent.plugins.logins": "AnthropicCLI Copilot OpenAISubscription",
    "sagent.plugins.mcp": "McpServer McpServerError McpTool ServerTools open_servers",
    "sagent.plugins.mesh.answering": "AgentAt TriageOnBus answering by_agent",
    "sagent.plugins.mesh.bus": "Address Bus Delivery Envelope Frame Sent message request",
    "sagent.plugins.mesh.bus_suite": "BusSuite",
    "sagent.plugins.mesh.buses.http": "http_bus",
    "sagent.plugins.mesh.buses.local": "LocalBus",
    "sagent.plugins.mesh.buses.nats": "nats_bus",
    "sagent.plugins.mesh.cards": "Card Change Query",
    "sagent.plugins.mesh.discovery": "announced find watching",
    "sagent.plugins.mesh.errors": "NobodyThere",
    "sagent.plugins.mesh.remote": "Mesh",
    "sagent.plugins.mesh.server": "ServerOptions serving",
    "sagent.plugins.notebook": "Notebook",
    "sagent.plugins.papers": "PaperAuthor PaperDetails PaperFetch PaperSearch",
    "sagent.plugins.pauses": "Pauses WaitingCall",
    "sagent.plugins.serve.client": "Client",
    "sagent.plugins.teams": (
        "Gathered HandoffBudget Pattern Role Runnable Team TeamResult handoff loop_until parallel sequential triage"
    ),
    "sagent.plugins.telemetry": "Telemetry",
    "sagent.plugins.web": "WebAccess WebFetch WebSearch",
}
"""Names of newer parts and of plugins that programs import, by module: provisional."""

AUTHORS = {
    "sagent.plugin": (
        "API CallForm Command ExportFormat HookEvent Part PathBase Plugin ProviderRow RefusedError Setting "
        "SlashCommand StatusPart Suite Table ToolEntry Trigger Variable choice"
    ),
    "sagent.app.builder": "AgentBuilder HookAnswer",
    "sagent.app.arrivals": "ToolSource",
    "sagent.app.models": "Choice",
    "sagent.context.calls": "CallReader WrittenCalls",
    "sagent.surface": "Surface",
    "sagent.config": "Settings load",
    "sagent.config.values": "name_of names_of path_of switch text_of usd whole",
    "sagent.config.files": "GivenTable",
    "sagent.repl.commands.command": "CommandContext command",
    "sagent.repl.terminal.picker": "Option",
    "sagent.repl.view.panel": "Figures",
    "sagent.plugins.exports.exported": "Exported Exporting",
    "sagent.advisor.signals": "Watch",
    "sagent.providers.rows": "Abilities Row",
    "sagent.lib.money": "ZERO show total",
    "sagent.lib.renamed": "warn_renamed",
}
"""Names that only plugins need, by module: provisional, and `sagent.plugin.API` counts up with them."""

HEAD = """\
# Public names

All that you may import, made from the code by `scripts/make_names.py`: what is not here may change at any time. A
**stable** name changes in minor versions only, with a line in the changelog, and its old form works and warns for two
of them ([versions](../versions.md)). A **provisional** one may change in each minor version; the changelog says how.
Members of a class that do not begin with `_` are as public as the class. Signatures are in the [reference](index.md).
"""
SECTIONS = (
    ("For programs", "The core.", PROGRAMS, "stable"),
    (
        "Newer parts, and plugins",
        "What plugins of ours add to programs, and newer parts of the core.",
        PROVISIONAL,
        "provisional",
    ),
    ("For plugins", "A [plugin](../plugins.md) may import these beside the names above.", AUTHORS, "provisional"),
)


class Public(NamedTuple):
    """A name with what the page says of it."""

    module: str
    name: str
    since: str
    stability: str


def is_there(path: str) -> bool:
    """Return False for a module of a plugin that was deleted."""
    return not path.startswith("sagent.plugins.") or (ROOT / "/".join(path.split(".")[:3])).is_dir()


def public_names() -> Iterator[Public]:
    """Yield the names of the page."""
    sections = MODULE.split(PAGE.read_text("utf-8"))
    for path, text in zip(sections[1::2], sections[2::2], strict=True):
        for row in ROW.finditer(text):
            yield Public(path, row["name"], row["since"], row["stability"])


def summary(module: ModuleType, name: str) -> str:
    """Return the first sentence of a name's docstring, or of the string below a constant or alias."""
    value: object = getattr(module, name)
    text = inspect.getdoc(value) if inspect.isclass(value) or inspect.isroutine(value) else ""
    if not text or text.startswith(f"{name}("):
        below = re.search(rf'^{name}\b.*?\n"""(.*?)"""', inspect.getsource(module), re.DOTALL | re.MULTILINE)
        text = below[1] if below and "\n\n" not in below[0] else ""
    first = re.split(r"(?<=[.:;])\s", " ".join(text.split()))[0].rstrip(".:;")
    first = first if len(first) <= MAX_SUMMARY_CHARS else f"{first[: first.rfind(' ', 0, MAX_SUMMARY_CHARS)]} …"
    return first.replace("|", "\\|")


def page() -> str:
    """Return the page."""
    from sagent.version import __version__

    coming = ".".join(__version__.split(".")[:2])
    known = {each[:2]: each.since for each in public_names()} if PAGE.exists() else {}
    lines = [HEAD]
    for title, text, modules, stability in SECTIONS:
        lines.append(f"## {title}\n\n{text}\n")
        for path, names in modules.items():
            lines.append(f"### `{path}`\n\n| name | since | stability | what it is |\n|---|---|---|---|")
            for name in names.split():
                since = known.get((path, name), coming)
                lines.append(f"| `{name}` | {since} | {stability} | {summary(import_module(path), name)} |")
            lines.append("")
    return "\n".join(lines)


def main() -> int:
    """Write the page; with --check, return 1 if it would change."""
    sys.path.insert(0, str(ROOT))
    if not all(is_there(path) for _, _, modules, _ in SECTIONS for path in modules):
        sys.stdout.write("plugins were deleted, so the page is left as it is\n")
        return 0
    text = page()
    if "--check" not in sys.argv:
        PAGE.write_text(text, "utf-8")
        return 0
    if PAGE.read_text("utf-8") == text:
        return 0
    sys.stderr.write("docs/reference/names.md differs from the code: python scripts/make_names.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
