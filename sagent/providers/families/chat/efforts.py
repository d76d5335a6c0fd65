"""Reasoning effort in Chat Completions: its encoding in each provider's requests.

The kind of parameter is data (providers.toml: `effort`, `efforts`); its encoding is here.
"""

from collections.abc import Mapping

from sagent.lib.json import EMPTY
from sagent.model import EFFORTS, Effort
from sagent.providers.families.model import nearest
from sagent.providers.families.openai_models import efforts_of, gpt_version
from sagent.providers.rows import Abilities, EffortParameter, Quirks

Members = tuple[Mapping[str, object], tuple[str, ...]]
"""Body members, and notes on what of the wish could not be met."""

_USUAL: tuple[Effort, ...] = ("low", "medium", "high")
_BUDGETS = dict(zip(EFFORTS[1:], (1_024, 4_096, 10_000, 20_000, 32_000, 38_000), strict=True))


def effort_members(
    model: str, quirks: Quirks, effort: Effort | None, *, with_tools: bool, able: Abilities | None = None
) -> Members:
    """Return the body members for an effort in a provider's format, and notes on unsupported parts."""
    name = able.like if able and able.like else model
    knob = _with_levels(knob_of(name, quirks), able.efforts if able else None)
    if knob.style == "openai":
        return _openai(name, effort, with_tools=with_tools)
    if effort is None:
        return EMPTY, ()
    thinks = effort != "none"
    switch = "enabled" if thinks else "disabled"
    match knob.style:
        case "reasoning":  # OpenRouter
            return {"reasoning": {"effort": "xhigh" if effort == "max" else effort}}, ()
        case "level":
            return _level(model, effort, knob)
        case "switch":  # Groq's Qwen
            return {"reasoning_effort": "default" if thinks else "none"}, _no_levels(model, effort)
        case "thinking" if thinks and knob.levels:  # DeepSeek, z.ai
            level, notes = _level(model, effort, knob)
            return {"thinking": {"type": switch}, **level}, notes
        case "thinking":
            return {"thinking": {"type": switch}}, _no_levels(model, effort)
        case "adaptive":  # MiniMax
            return {"thinking": {"type": "adaptive" if thinks else "disabled"}}, _no_levels(model, effort)
        case "enable_thinking":  # DashScope
            return {"enable_thinking": thinks, **({"thinking_budget": _BUDGETS[effort]} if thinks else {})}, ()
        case "template":  # servers that hand it to the model's chat template: vLLM, llama.cpp
            return _template(model, effort)
        case "always":
            return EMPTY, (f"{model} always thinks, at an effort of its own: {effort} was left out",)
        case _:
            return EMPTY, (f"effort {effort} was left out: how to set it for {model} is not known",)


def knob_of(model: str, quirks: Quirks) -> EffortParameter:
    """Return the parameter of a model: that with the longest beginning of its id, with or without its vendor."""
    names = (model.lower(), model.lower().rpartition("/")[2])
    fitting = [knob for knob in quirks.efforts if any(name.startswith(knob.of.lower()) for name in names)]
    return max(fitting, key=lambda knob: len(knob.of), default=EffortParameter("", quirks.effort))


def _with_levels(knob: EffortParameter, levels: tuple[Effort, ...] | None) -> EffortParameter:
    """Return the parameter of a model whose levels a person has given: one with levels, whatever is known of others."""
    if not levels:
        return knob
    return EffortParameter(
        knob.of, knob.style if knob.style in ("reasoning", "thinking", "template") else "level", levels
    )


def _level(model: str, effort: Effort, knob: EffortParameter) -> Members:
    if not knob.levels and effort == "none":
        return {"reasoning_effort": "none"}, ()
    best, notes = nearest(model, effort, knob.levels or _USUAL)
    return {"reasoning_effort": best}, notes


def _template(model: str, effort: Effort) -> Members:
    """Return parameters of chat templates, which use a switch or levels under common names and ignore unknown ones."""
    if effort == "none":
        return {"chat_template_kwargs": {"enable_thinking": False}}, ()
    level, notes = nearest(model, effort, _USUAL)
    return {"chat_template_kwargs": {"enable_thinking": True, "reasoning_effort": level}}, notes


def _no_levels(model: str, effort: Effort) -> tuple[str, ...]:
    if effort == "none":
        return ()
    return (f"{model} has no levels of effort: thinking is on",)


def _openai(model: str, effort: Effort | None, *, with_tools: bool) -> Members:
    """Return OpenAI's `reasoning_effort`. From GPT-5.5 on this endpoint accepts tools only with an explicit "none"."""
    version = gpt_version(model.rpartition("/")[2])
    if with_tools and version >= (5, 4):
        if version >= (5, 5) or effort is not None:
            note = f"{model} does not reason here: Chat Completions takes tools only without reasoning"
            return {"reasoning_effort": "none"}, (note,) if effort not in (None, "none") else ()
        return EMPTY, ()
    if effort is None:
        return EMPTY, ()
    if accepted := efforts_of(model):
        best, notes = nearest(model, effort, accepted)
        return {"reasoning_effort": best}, notes
    return EMPTY, (f"{model} does not reason: effort {effort} was left out",) if effort != "none" else ()
