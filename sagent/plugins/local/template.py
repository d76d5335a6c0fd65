"""The abilities of a chat template, found once by trials, so that unsupported parts can be written differently."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from sagent.lib.dataclass import dataclass
from sagent.lib.json import EMPTY, as_array, as_object, as_str, json_dump
from sagent.messages import ToolCall
from sagent.model import ToolSpec
from sagent.plugins.textcalls.marks import TOKENS
from sagent.plugins.textcalls.reader import MarkReader

Chat: TypeAlias = Mapping[str, object]
"""A message for a chat template: role, content, tool_calls, tool_call_id, name, reasoning_content."""

_SYSTEM, _USER, _LATER = "sagent asks system", "sagent asks user", "sagent asks later"
_WORDS = ("sagent asks argument", "sagent asks result")


@dataclass(frozen=True, slots=True)
class Habits:
    """The abilities of a template, found by trials; unsupported parts are written differently."""

    system: bool = True  # a system message
    tools: bool = True  # native tools, calls and results
    text_arguments: bool = False  # arguments as JSON text, not as an object
    empty: str | None = ""  # the content of a message that only calls
    parallel: bool = True  # several calls in one message
    interleaved: bool = True  # a user message right after results
    thoughts: bool = True  # thinking in a message that has text and calls
    bare: bool = False  # calls are written without marks
    switch: bool = False  # thinking can be turned on and off


Render: TypeAlias = Callable[[Sequence[Chat], Sequence[object], Mapping[str, object]], str]


def learn_habits(render: Render, *, described: bool = False) -> Habits:
    """Try a template with small conversations. `render` may raise anything.

    A template whose calls cannot be parsed here counts as one without tools, unless its tokenizer describes them.
    """
    ask = {"role": "user", "content": _USER}
    fields = {"type": "object", "properties": {"x": {"type": "string"}}}
    tool = {"type": "function", "function": {"name": "probe", "description": "x", "parameters": fields}}

    def shows(chat: Sequence[Chat], *words: str, tools: Sequence[object] = ()) -> str:
        try:
            text = render(chat, tools, EMPTY)
        except Exception:
            return ""
        return text if all(word in text for word in words) else ""

    def differs() -> bool:
        try:
            on, off = (render([ask], (), {"enable_thinking": flag, "thinking": flag}) for flag in (True, False))
        except Exception:
            return False
        return on != off

    head = {"role": "system", "content": _SYSTEM}
    system = bool(shows([head, ask], _SYSTEM, _USER))
    if prompt := shows([ask], "probe", tools=[tool]):
        for text_arguments, empty in ((False, ""), (True, ""), (False, None), (True, None)):
            habits = Habits(system, text_arguments=text_arguments, empty=empty, switch=differs())
            one = adapt_conversation([ask, *_probes(1)], [], habits)[0]
            if not (text := shows(one, *_WORDS, tools=[tool])):
                continue
            written = text.rpartition(_USER)[2]
            if bare := not any(mark in written for mark in TOKENS):
                written = text.removeprefix(prompt)  # it must begin with the call
            if not described and not _is_read(written, bare=bare):
                continue
            said = {**one[1], "content": _LATER, "reasoning_content": _LATER}
            return Habits(
                system and bool(shows([head, *one], _SYSTEM, tools=[tool])),
                text_arguments=text_arguments,
                empty=empty,
                parallel=bool(
                    shows(adapt_conversation([ask, *_probes(2)], [], habits)[0], *_WORDS, "second", tools=[tool])
                ),
                interleaved=bool(shows([*one, {"role": "user", "content": _LATER}], *_WORDS, _LATER, tools=[tool])),
                thoughts=bool(shows([one[0], said, *one[2:]], *_WORDS, tools=[tool])),
                bare=bare,
                switch=habits.switch,
            )
    return Habits(system, tools=False, switch=differs())


def _is_read(written: str, *, bare: bool) -> bool:
    """Return True if a call can be parsed from the template's output, because the model writes it in the same form."""
    reader = MarkReader((ToolSpec("probe", "", EMPTY),), "probe", bare=bare)
    reader.feed(written)
    reader.finish()
    return any(isinstance(part, ToolCall) and part.arguments.get("x") == _WORDS[0] for part in reader.parts())


def _probes(calls: int) -> list[Chat]:
    """Return a message with calls, and their results."""
    values = [_WORDS[0], "second"][:calls]
    made = [
        {"id": f"call0000{at}", "type": "function", "function": {"name": "probe", "arguments": {"x": value}}}
        for at, value in enumerate(values)
    ]
    results = [
        {"role": "tool", "tool_call_id": f"call0000{at}", "name": "probe", "content": _WORDS[1]} for at in range(calls)
    ]
    return [{"role": "assistant", "content": "", "tool_calls": made}, *results]


def adapt_conversation(
    chat: Sequence[Chat], tools: Sequence[object], habits: Habits
) -> tuple[list[Chat], Sequence[object]]:
    """Return a conversation, and tools, for a template with these habits."""
    system = [as_str(message.get("content")) for message in chat if message.get("role") == "system"]
    dressed: list[Chat] = []
    if tools and not habits.tools:
        text = Path(__file__).with_name("selfhosted_tools.md").read_text(encoding="utf-8")
        system.append(text.replace("{tools}", "\n".join(json_dump(as_object(tool).get("function")) for tool in tools)))
        tools = ()
    for message in chat:
        match message.get("role"):
            case "system":
                pass
            case "assistant":
                dressed.append(_assistant(message, habits))
            case "tool":
                _add_result(dressed, message, habits)
            case _:
                _add_user(dressed, as_str(message.get("content")), habits)
    if not habits.parallel:
        dressed = _one_by_one(dressed)
    if system and habits.system:
        dressed.insert(0, {"role": "system", "content": "\n\n".join(system)})
    elif system:
        first = as_str(dressed[0].get("content"))
        dressed[0] = {**dressed[0], "content": "\n\n".join((*system, first))}
    return dressed, tools


def _assistant(message: Chat, habits: Habits) -> Chat:
    calls = as_array(message.get("tool_calls"))
    if not calls:
        return message
    if not habits.tools:
        blocks = [f"<tool_call>\n{json_dump(as_object(call).get('function'))}\n</tool_call>" for call in calls]
        rest = {name: value for name, value in message.items() if name != "tool_calls"}
        return {**rest, "content": "\n".join(filter(None, (as_str(message.get("content")), *blocks)))}
    if habits.text_arguments:
        calls = [
            {
                **(fields := as_object(call)),
                "function": {
                    **(inner := as_object(fields.get("function"))),
                    "arguments": json_dump(inner.get("arguments")),
                },
            }
            for call in calls
        ]
    text = as_str(message.get("content"))
    if text and not habits.thoughts:
        message = {name: value for name, value in message.items() if name != "reasoning_content"}
    return {**message, "content": text or habits.empty, "tool_calls": calls}


def _add_result(dressed: list[Chat], message: Chat, habits: Habits) -> None:
    if habits.tools:
        dressed.append(message)
        return
    text = f"<tool_response>\n{as_str(message.get('content'))}\n</tool_response>"
    if dressed and dressed[-1].get("role") == "user":
        text = f"{as_str(dressed.pop().get('content'))}\n{text}"
    dressed.append({"role": "user", "content": text})


def _add_user(dressed: list[Chat], text: str, habits: Habits) -> None:
    last = dressed[-1] if dressed else EMPTY
    if last.get("role") == "user" or (last.get("role") == "tool" and not habits.interleaved):
        dressed[-1] = {**last, "content": f"{as_str(last.get('content'))}\n\n{text}"}
    else:
        dressed.append({"role": "user", "content": text})


def _one_by_one(chat: Sequence[Chat]) -> list[Chat]:
    """Yield parallel calls one after the other, each with its result in a separate message."""
    results = {as_str(message.get("tool_call_id")): message for message in chat if message.get("role") == "tool"}
    apart: list[Chat] = []
    for message in chat:
        calls = as_array(message.get("tool_calls"))
        if len(calls) > 1:
            for at, call in enumerate(calls):
                content = message.get("content") if at == 0 else ""
                apart.append({**message, "content": content, "tool_calls": [call]})
                if result := results.pop(as_str(as_object(call).get("id")), None):
                    apart.append(result)
        elif message.get("role") != "tool" or results.pop(as_str(message.get("tool_call_id")), None):
            apart.append(message)
    return apart
