"""The names of spans, attributes and metrics, in one place.

They follow version 0.1.0 of the semantic conventions for generative AI, and those for MCP
(github.com/open-telemetry/semantic-conventions-genai). Both are in development and may change with every version. Names
beyond the conventions begin with `sagent.`.
"""

from collections.abc import Mapping
from typing import Final

CONVENTIONS: Final = "0.1.0"
CAPTURE_VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

# -- operations, with which the names of spans begin --
INVOKE_AGENT: Final = "invoke_agent"
EXECUTE_TOOL: Final = "execute_tool"
CONSULT: Final = "consult_advisor"
COMPACT: Final = "compact_context"

# -- attributes --
OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
AGENT: Final = "gen_ai.agent.name"
CONVERSATION: Final = "gen_ai.conversation.id"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"  # those from and to a cache included
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"  # of version 1.41: Langfuse and Logfire read it
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
CALL_ID: Final = "gen_ai.tool.call.id"
ERROR: Final = "error.type"
MCP_METHOD: Final = "mcp.method.name"

# -- attributes with content, only where it was asked for --
SYSTEM: Final = "gen_ai.system_instructions"
INPUT: Final = "gen_ai.input.messages"
OUTPUT: Final = "gen_ai.output.messages"
ARGUMENTS: Final = "gen_ai.tool.call.arguments"
RESULT: Final = "gen_ai.tool.call.result"

# -- our own attributes --
USD: Final = "sagent.cost.usd"
COST: Final = "operation.cost"  # the same, under the name that Logfire reads
USAGE_COST: Final = "gen_ai.usage.cost"  # and under that of Langfuse
UNPRICED: Final = "sagent.cost.unpriced"
ROLE: Final = "sagent.role"
STOP: Final = "sagent.stop_reason"
TURNS: Final = "sagent.turns"
JOB: Final = "sagent.job"
SERVER: Final = "sagent.mcp.server"
ADVISOR: Final = "sagent.advisor.name"
TRIGGER: Final = "sagent.advisor.trigger"
STATUS: Final = "sagent.advisor.status"
VERDICT: Final = "sagent.advisor.verdict"
BEFORE: Final = "sagent.compaction.tokens_before"
AFTER: Final = "sagent.compaction.tokens_after"
REASON: Final = "sagent.compaction.reason"

# -- metrics --
INFERENCE_SECONDS: Final = "gen_ai.client.inference.duration"
FIRST_CHUNK_SECONDS: Final = "gen_ai.client.inference.time_to_first_chunk"
AGENT_SECONDS: Final = "gen_ai.invoke_agent.duration"
AGENT_CALLS: Final = "gen_ai.invoke_agent.inference_calls"
AGENT_TOOL_CALLS: Final = "gen_ai.invoke_agent.tool_calls"
TOOL_SECONDS: Final = "gen_ai.execute_tool.duration"
INPUT_COUNT: Final = "gen_ai.client.inference.usage.input_tokens"
OUTPUT_COUNT: Final = "gen_ai.client.inference.usage.output_tokens"
CACHE_READ_COUNT: Final = "gen_ai.client.inference.usage.cache_read.input_tokens"
CACHE_WRITE_COUNT: Final = "gen_ai.client.inference.usage.cache_write.input_tokens"
REASONING_COUNT: Final = "gen_ai.client.inference.usage.reasoning.output_tokens"
USD_COUNT: Final = "sagent.cost.usd"
UNPRICED_COUNT: Final = "sagent.cost.unpriced_calls"
CACHE_SHARE: Final = "sagent.cache.share"

_PROVIDERS: Mapping[str, str] = {
    "google": "gcp.gemini",
    "vertex": "gcp.vertex_ai",
    "bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
    "bedrock-mantle": "aws.bedrock",
    "vertex-anthropic": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "xai": "x_ai",
    "anthropic-cli": "anthropic",
    "openai-subscription": "openai",
}
_REASONS: Mapping[str, str] = {
    "end": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "context_overflow": "length",
    "tool_use": "tool_call",
    "refusal": "content_filter",
}


def provider_name(provider: str) -> str:
    """Return a provider's name in the conventions, or its own if they have none."""
    return _PROVIDERS.get(provider, provider)


def operation_name(provider: str) -> str:
    """Return the operation name of a provider's model calls."""
    return "generate_content" if provider in ("google", "vertex") else "chat"


def finish_reason(stop: str | None) -> str:
    """Return the reason why a reply ended, in the conventions' words, or ours if they have none."""
    return _REASONS.get(stop or "", stop or "error")
