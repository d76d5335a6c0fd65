"""Names of other libraries, and what is written here in their place: read only when an error meets one of them."""

import re
from collections.abc import Mapping
from pathlib import Path

_LIMITS = "limits=RunLimits(max_turns=20), and max_budget_usd= for money"
_OUTPUT = "output= of run, run_sync and stream; the answer is then result.data"
_OPTIONS = 'options={"temperature": 0.2}, and effort="high" for reasoning'
_POLICY = 'policy=PermissionPolicy("edit") of sagent.policy.permissions, and resources=Resources(ask=...)'
_KEPT = (
    'an agent continues from run to run: agent.messages is the conversation, Agent(..., session="chats/ann") saves it'
)
_TOOLS = "tools=[...], functions with a docstring, or those of servers by open_servers of the plugin mcp"
_RUN = "await agent.run(...), or agent.run_sync(...)"
_STREAM = "async for event in agent.stream(...)"
_AS_TOOL = 'tools=[expert.as_tool("expert", "what it is asked for")], or a pattern of agents: docs/agents.md'
_MESSAGES = "agent.messages"


def _spread(*rows: tuple[str, str]) -> Mapping[str, str]:
    return {name: here for names, here in rows for name in names.split()}


_KEYWORDS = _spread(
    ("instructions system_prompt prompt system_message", "system=, a string or a function"),
    ("output_type result_type response_format response_model output_schema", _OUTPUT),
    ("name agent_name", 'resources=Resources(path="reviewer")'),
    ("model_settings temperature top_p seed settings generation_config extra_body", _OPTIONS),
    ("reasoning_effort thinking reasoning", 'effort="high"'),
    ("max_tokens max_output_tokens", "limits=RunLimits(max_response_tokens=...)"),
    ("retries max_retries usage_limits max_turns max_iterations max_steps recursion_limit", _LIMITS),
    ("max_cost budget max_budget", "max_budget_usd="),
    ("message_history history messages conversation_id resume", _KEPT),
    ("session memory", 'Agent(..., session="chats/ann")'),
    ("context dependencies", "run(..., deps=...), and run.deps in tools that take a RunContext"),
    ("handoffs sub_agents agents", _AS_TOOL),
    ("toolsets mcp_servers builtin_tools capabilities functions", _TOOLS),
    ("permission_mode allowed_tools can_use_tool input_guardrails output_guardrails needs_approval", _POLICY),
    ("ask human_input", "resources=Resources(ask=...)"),
    ("hooks callbacks on_event event_stream_handler", "agent.listen(function), which is called with every event"),
    ("cwd working_directory", "resources=Resources(workspace=Workspace(Path(...))) of sagent.tool"),
    ("stream", _STREAM),
    ("tool_name tool_description", 'as_tool("name", "what it is asked for")'),
)
_OF_AGENT = _spread(
    ("tool tool_plain system_prompt instructions", "Agent(..., tools=[...], system=...); @sagent.tool makes a tool"),
    ("output_validator", _OUTPUT),
    ("run_stream run_streamed run_stream_events iter astream", _STREAM),
    ("invoke ainvoke chat ask query generate", _RUN),
    ("override", "Agent(ScriptedModel(...)), of sagent.testing"),
    ("history get_messages memory", _MESSAGES),
    ("clone copy", "a function that makes an agent for each conversation"),
    ("close", "await agent.aclose(), or async with"),
    ("name", "agent.path"),
)
_OF_RESULT = _spread(
    ("output final_output", "result.content is the text, and result.data what run(..., output=...) asked for"),
    ("text final_answer message response result", "result.content"),
    ("all_messages new_messages to_input_list messages new_items all_messages_json", _MESSAGES),
    ("total_cost_usd run_cost", "result.run_usd, and result.cost.total of the session"),
    ("structured_output parsed", "result.data"),
)
_MISSING = {"Agent": _OF_AGENT, "Result": _OF_RESULT}
_IMPORTS = _spread(
    (
        "Runner query ClaudeSDKClient",
        "Agent(...).run(...), run_sync(agent, ...), or run_task(...) with your own settings",
    ),
    ("ClaudeAgentOptions RunConfig", "load_config(...) for run_task and open_agent; Agent has its own arguments"),
    (
        "function_tool Tool FunctionTool create_sdk_mcp_server",
        "the decorator tool, or the plain function in tools=[...]",
    ),
    ("ModelRetry", "ToolError, whose text the model reads"),
    ("UsageLimits", "RunLimits, and max_budget_usd="),
    ("ModelSettings", _OPTIONS),
    ("Session SQLiteSession", 'Agent(..., session="chats/ann")'),
    ("RunContextWrapper", "RunContext"),
    ("AgentRunResult RunResult ResultMessage", "Result"),
    ("InputGuardrail OutputGuardrail GuardrailFunctionOutput", "a policy (sagent.policy), which judges calls"),
    ("AgentDefinition", _AS_TOOL),
    ("ModelMessage", "Message, of sagent.messages"),
)
_RENAMED = {"trace": "Telemetry"}
HOMES: Mapping[str, str] = {  # where names are that are looked for in `sagent` itself
    "sagent.messages": "Message Text Thinking Image Document ToolCall ToolResult user assistant",
    "sagent.events": "Event ReplyFinished ToolStarted ToolFinished Finished",
    "sagent.model": "Model Provider Request Reply ToolSpec",
    "sagent.tools": "Read Write Edit Glob Grep List Bash coding_tools agent_tools",
    "sagent.agent": "Tree TreeLimits",
    "sagent.providers": "Anthropic OpenAI Google OpenAICompatible provider_named",
    "sagent.policy": "Policy Allow Deny Ask AllowAll",
    "sagent.policy.permissions": "PermissionPolicy",
    "sagent.peer": "SpawnRequest Switch Inject Compact Stop",
    "sagent.cost.ledger": "Ledger",
    "sagent.session.log": "FileLog MemoryLog",
    "sagent.config": "Settings",
    "sagent.testing": "ScriptedModel",
    "sagent.testing.server": "FakeProviderServer",
}


def unknown_keyword(owner: str, given: Mapping[str, object]) -> TypeError:
    """The error for keywords that a function does not have."""
    name = next(iter(given))
    here = f". Here: {_KEYWORDS[name]}" if name in _KEYWORDS else ""
    return TypeError(f"{owner}() has no argument {name!r}{here}")


def missing_attribute(owner: str, name: str) -> str:
    """Return the message for an attribute that an object does not have."""
    here = _MISSING.get(owner, {}).get(name)
    return f"{owner!r} object has no attribute {name!r}{f'. Here: {here}' if here else ''}"


def import_hint(name: str) -> str:
    """Return the import or code to use for a name that `sagent` does not have; "" if none is known."""
    name = _RENAMED.get(name, name)
    home = next((home for home, names in HOMES.items() if name in names.split()), "") or plugin_with(name)
    return f"from {home} import {name}" if home else _IMPORTS.get(name, "")


def plugin_with(name: str) -> str:
    """Return the module of one of our plugins that says that it has a name, "" where none does."""
    for path in sorted((Path(__file__).parents[1] / "plugins").glob("*/__init__.py")):
        names = re.search(r"^__all__ = \[([^]]*)\]", path.read_text("utf-8"), re.MULTILINE)
        if names is not None and f'"{name}"' in names[1]:
            return f"{__name__.partition('.')[0]}.plugins.{path.parent.name}"
    return ""
