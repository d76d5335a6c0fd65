"""Calls as text: recognised in what models say, in the form of every family, and a protocol of blocks of text."""

from sagent.plugin import CallForm, Extra, Flag, ModelLayer, Plugin, Setting, choice

LIKELY = (
    r"(?m)[\"'](?:arguments|parameters|args|params|input|tool_input|action_input|kwargs|name|tool|function|action)[\"']\s*:"
    r"|tool_?c|TOOL_?CALL|<\|?(?:function|invoke|tools|minimax|channel|start|python_tag|action|START_ACTION)|<｜"
    r"|<\|?python_|<\w+>\s*[<{\[]|<\w+\s[^<>]*>|<code>|<steptml|\[TOOL_REQ|\bcall:[\w.-]+\{|✿|functools\["
    r"|^[ \t]*(?:-[ \t]+)?(?i:name|(?:tool|function)(?:[_ ]?name)?|action):|^(?:>>>[ \t]*)?[\w.-]+[ \t]*\n[ \t]*\{"
    r"|\A\s*[\w.:-]+\(|^[ \t]*(?:[A-Z][\w.-]*\(|@[A-Za-z_][\w.-]*\s*[({])"
    r"|^[ \t]*\[?(?:\*\*)?(?i:(?:assistant:[ \t]*)?(?:call|invok|execut|using|use[ \t]|tool|function)"
    r"[^\n({]*(?:\n[^\w\n({]*(?:(?:arg|param|input)[^\n({]*)?)?[({])"
    r"|to=functions|^\s*\[\s*[\w.:-]+\s*\(|^\s*\{\s*\"[\w.:-]+\"\s*:\s*\{|```\w+[ \t]*\n\s*\{"
    r"|```[ \t]*py(?:thon)?[ \t]*\n\s*(?:\[\s*)?(?:\w+\s*=\s*)?(?:print\s*\(\s*)?[A-Za-z_][\w.:-]*\s*\("
)
"""A word without which no reply has calls."""
TOOL_CALLS = Setting(
    "tool_calls",
    choice("auto", "native", "text"),
    "auto",
    'Literal["auto", "native", "text"]',
    group="model",
    metavar="HOW",
    uses=("remote", "shared", "asked_again"),
    help="how models write their calls: auto (default), native (by the provider's API) or text",
)
plugin = Plugin(
    "textcalls",
    "calls that models write as text",
    settings=(TOOL_CALLS,),
    call_forms=(
        CallForm("text", "the forms of all families", "sagent.plugins.textcalls.holding:Holder", "<`{[", LIKELY),
    ),
    model_layers=(ModelLayer("sagent.plugins.textcalls.protocols:layer", ("tool_calls=text", "family chat")),),
    flags=(Flag("forget", "forget that this model was seen to write its calls as text", "MODEL", of="models"),),
    extras=(
        Extra("models", "sagent.plugins.textcalls.seen:forget"),
        Extra("models list", "sagent.plugins.textcalls.seen:seen"),
    ),
)
