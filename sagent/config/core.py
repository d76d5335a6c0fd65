"""The core as a plugin: what it has of commands, parts of agents and settings, by the door that every plugin takes."""

from sagent.config.declared import SETTINGS
from sagent.plugin import Command, Part, Plugin

_PARTS = "sagent.app.parts"
_COMMANDS = {
    "run": "run one task without a terminal, with --executor and --advisor",
    "team": "have a team of roles work on one task, each handing its results to the next: presets, or your own file",
    "models": "list known models: window, limits, price",
    "sessions": "list, search, show, compact, rewind, delete, prune or repair sessions",
    "review": "review a range of commits or the working tree, in CI as comments on a pull request",
    "verify": "check that a session, or an exported bundle, has not been changed",
    "export": "export a session as a bundle, a web page, Markdown, JSON lines or a terminal recording",
    "share": "export sessions as a static folder for any web server",
    "replay": "run a session again from its log, or give its prompts to another model",
    "compare": "compare two sessions: requests, calls, outcome, cost, tokens, time",
    "trace": "show a run turn by turn, from its trace or its session",
    "advice": "show what a session's advisors said, what came of it and what it cost",
    "bench-advisor": "run tasks with and without an advisor, and show the difference",
    "sweep": "run tasks with every combination of some settings, within one budget, and tabulate the results",
    "gate": "check, in CI, whether a result is good enough: exit 0 or 1",
    "import": "import settings from Claude Code, codex, opencode, Gemini CLI or VS Code",
    "plugin": "add, list or remove plugins: skills, agents, commands, hooks and MCP servers",
    "acp": "run as an agent for an editor: Zed, JetBrains, neovim and others start it",
    "a2a": "accept tasks from other agents over the A2A protocol: a card, JSON-RPC and REST",
    "serve": "serve sessions over HTTP, for programs and the browser",
    "mcp": "MCP servers: list, add, remove or test them; serve sagent to other agents",
    "node": "run sessions from a bus on this machine",
    "nodes": "list or drain the nodes of a bus; set up its users and permissions",
    "attach": "follow a session that runs on a bus, write to it and answer its questions",
    "bus": "start a bus for agents on several machines, and print its URL",
    "slack": "run Slack threads as sessions, with buttons, files and budgets",
    "agents": "list the agents, nodes and sessions on a bus, or watch them come and go",
    "send": "send a message to an agent on a bus, and print its answer",
    "config": "show every setting and where it comes from",
    "login": "save a provider's API key, or log in to GitHub for Copilot; it is tested first",
    "doctor": "check keys, providers, programs, the terminal and directories",
    "demo": "fix a failing test in a small project, by default offline and without a key; --local: a real small model",
    "completion": "print shell completion for bash, zsh or fish, or a man page",
}

CORE = Plugin(
    "sagent",
    commands=tuple(
        Command(name, text, f"sagent.cli.commands.{member}:run_{member}")
        for name, text in _COMMANDS.items()
        for member in (name.replace("-", "_"),)
    ),
    parts=(
        Part(f"{_PARTS}.trace:add", ("trace",)),
        Part(f"{_PARTS}.memory:add", ("memory",)),
        Part(f"{_PARTS}.advisors:add", ("advisors", "had advisors")),
        Part(f"{_PARTS}.plan:add", ("proposes a plan",)),
        Part(f"{_PARTS}.servers:add", ("mcp",)),
        Part(f"{_PARTS}.remotes:add", ("a2a",)),
        Part(f"{_PARTS}.search:add", ("mcp", "defers tools"), "offered"),
        Part(f"{_PARTS}.hooks:add", ("hooks",), "around"),
        Part(f"{_PARTS}.pins:add", ("mcp",), "around"),
        Part(f"{_PARTS}.code:add", ("checks code",), "around"),
    ),
    settings=SETTINGS,
)
