"""The marks of thinking and of calls in what models write, and the keys and labels of names and arguments."""

from collections.abc import Mapping

NAMES = ("name", "tool_name", "function_name", "tool", "function", "action")
"""Keys under which models put the name of a tool."""
ARGUMENTS = ("arguments", "parameters", "args", "params", "input", "tool_input", "action_input", "kwargs")
"""Keys under which they put its arguments."""

THOUGHTS: Mapping[str, str] = {
    "<think>": "</think>",
    "[THINK]": "[/THINK]",
    "<seed:think>": "</seed:think>",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|channel>thought": "<channel|>",
    "<|think|>": "<|begin|>assistant",
}
BEGUN_CALL = "<｜tool▁call▁begin｜>"
GEMMA: Mapping[str, str] = {
    "<start_function_call>": "<end_function_call>",
    "<|tool_call>": "<tool_call|>",
}
"""Marks of Gemma's calls, which have strings between marks of their own and keys without quotation marks."""
INVOKING: Mapping[str, str] = {
    "<function_calls>": "</function_calls>",
    "<invoke name=": "</invoke>",
    "<minimax:tool_call>": "</minimax:tool_call>",
    "<｜DSML｜function_calls>": "</｜DSML｜function_calls>",
    "<｜DSML｜tool_calls>": "</｜DSML｜tool_calls>",
    "<steptml:toolcall>": "</steptml:toolcall>",
    "<steptml:invoke name=": "</steptml:invoke>",
}
"""Marks of calls whose arguments are elements, and their closing marks."""
STEP: Mapping[str, str] = {
    "<｜tool_calls_begin｜>": "<｜tool_calls_end｜>",
    "<｜tool_call_begin｜>": "",
}
"""Marks of Step's calls: DeepSeek's with other dashes, around elements."""
SOLAR_CALL, SOLAR_NAME, SOLAR_ARGUMENTS = "<|tool_call:begin|>", "<|tool_call:name|>", "<|tool_call:args|>"
ATTRIBUTED: Mapping[str, str] = {
    "<tool_call ": "</tool_call>",
    "<tool_use ": "</tool_use>",
    "<function_call ": "</function_call>",
}
"""Marks of elements that have the tool's name as an attribute."""
CHATML_CALL = "<|im_start|>tool_call"

TOKENS: Mapping[str, str] = {  # "" is closed by the end of the reply
    "<tool_call>": "</tool_call>",
    "<function=": "</function>",
    "[TOOL_CALLS]": "",
    "<|python_tag|>": "",
    "<|tool_call|>": "<|/tool_call|>",
    "<｜tool▁calls▁begin｜>": "<｜tool▁calls▁end｜>",
    "<|START_ACTION|>": "<|END_ACTION|>",
    **GEMMA,
    **STEP,
    SOLAR_CALL: "",
    "<|tool_call_start|>": "<|tool_call_end|>",
    "<|tool_calls_section_begin|>": "<|tool_calls_section_end|>",
    "<|action_start|>": "<|action_end|>",
}
"""Marks of calls that templates write, of which many are special tokens."""
MARKS: Mapping[str, str] = {
    **TOKENS,
    **INVOKING,
    **ATTRIBUTED,
    BEGUN_CALL: "",
    CHATML_CALL: "<|im_end|>",
    "<|tool_calls|>": "",
    "<tool_calls>": "</tool_calls>",
    "<tool_use>": "</tool_use>",
    "<longcat_tool_call>": "</longcat_tool_call>",
    "<|tools_prefix|>": "<|tools_suffix|>",
    "<|python_start|>": "<|python_end|>",
    "[TOOL_REQUEST]": "[END_TOOL_REQUEST]",
    "[TOOL_CALL]": "[/TOOL_CALL]",
    "[tool_call]": "[/tool_call]",
    "<tools>": "</tools>",
    "<function_call>": "</function_call>",
    "<functioncall>": "",
    "<TOOLCALL>": "</TOOLCALL>",
    "<seed:tool_call>": "</seed:tool_call>",
}
"""Marks that begin a call in a reply of any model, and marks that end it; "" is the end of the reply."""
_INNER = (
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool_sep｜>",
    "<｜tool_call_end｜>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    SOLAR_NAME,
    SOLAR_ARGUMENTS,
    "<|tool_call:end|>",
    '<|"|>',
    "<escape>",
    "[ARGS]",
    "[CALL_ID]",
    "<|channel>",
)
SHOWN_TOKENS = frozenset((*THOUGHTS, *THOUGHTS.values(), *TOKENS, *TOKENS.values(), *_INNER)) - {""}
"""Marks that must be decoded as text, although some of them are special tokens."""
CALL_FENCES = ("tool_call", "tool_calls", "tool_code", "tool_use", "function_call")
"""Words after the marks of a fenced block that is a call."""
