"""Calls of replies that were cut or taken back, in every family of providers: none may be made.

A call that is made leaves the file `made`. A reply is cut at its output limit, by a filter, in the middle of the
connection, or by an error; its call has no arguments, half of them, or all.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sagent.testing.server import Call, Cut, ErrorEvent, Raw, Step, Turn
from tests.attack.plans import Attempt
from tests.attack.program import FAMILIES, Program
from tests.forks import Forks

# A tool whose default is dangerous.
_WIPE = """
from sagent import tool

@tool
def wipe(path: str = "made") -> str:
    "Wipe."
    open("../" + path, "w").close()
    return "wiped"
"""
_TOOLS = "Bash,Read,Write,AgentSpawn,./wipe.py"
_EVIL = "touch ../made" + " " * 60  # so long that a connection can break in it
_WHOLE = Call("Bash", {"command": _EVIL, "timeout": 5})
_CALLS: Mapping[str, Sequence[Call]] = {
    "no arguments": (Call("wipe", "", cut=True),),
    "no arguments, closed": (Call("wipe", ""),),
    "an empty object": (Call("wipe", "{}", cut=True),),
    "half an argument": (Call("wipe", '{"path": "ma', cut=True), Call("wipe", '{"path": "made', cut=True)),
    "whole": (_WHOLE,),
    "whole, left open": (Call("Bash", {"command": _EVIL}, cut=True),),
    "half a command": (Call("Bash", '{"command": "touch ../made'),),
    "half a command, left open": (Call("Bash", '{"command": "touch ../made', cut=True),),
    "without its last brace": (Call("Bash", '{"command": "touch ../made"'),),
    "half a file": (Call("Write", '{"file_path": "../made", "content": "x'),),
    "a file without its last brace": (Call("Write", '{"file_path": "../made", "content": "x"', cut=True),),
    "after another": (Call("Read", {"file_path": "a.txt"}), Call("wipe", "", cut=True)),
}
_STOPS = (
    "refusal",
    "content_filter",
    "context_overflow",
    "model_context_window_exceeded",
    "SAFETY",
    "RECITATION",
    "guardrail_intervened",
    "kv_window_full",
    "token_budget",
    "MALFORMED_FUNCTION_CALL",
    "length",
    "max_tokens",
)
_STEP = {"converse": 4}  # of which fewer are tried: its client takes seconds to load
_BREAKS = {"converse": (6,), "google": (0, 1)}  # a call of Google's is one event
_SPEAKING = ("responses", "chat", "converse")  # families that say a refusal in their text
_OPEN = ("no arguments", "whole, left open", "half a command, left open", "a file without its last brace")


def _effects(
    steps: Sequence[Step], family: str, base: Path, forks: Forks, *flags: str, again: bool = False
) -> list[str]:
    program = Program(base, forks, family)
    (program.tree / "wipe.py").write_text(_WIPE)
    flags = ("--tools", _TOOLS, *flags)
    program.run([*steps, *[Turn(text="Done.")] * 4], "go", *flags)
    if again:
        program.run([Turn(text="Done.")] * 4, "go on", "--continue", *flags)
    return ["a call was made"] if (base / "made").exists() else []


def _attempt(words: str, family: str, *steps: Step, flags: Sequence[str] = (), again: bool = False) -> Attempt:
    def effects(base: Path, forks: Forks) -> Sequence[str]:
        return _effects(steps, family, base, forks, *flags, again=again)

    return Attempt(f"cut call, {family}: {words}", effects)


def _stopped() -> Iterator[Attempt]:
    """Replies that end for a reason."""
    for family in FAMILIES:
        for words, calls in list(_CALLS.items())[:: _STEP.get(family, 1)]:
            yield _attempt(f"{words}, max_tokens", family, Turn(calls=calls, stop="max_tokens"))
        for stop in _STOPS[family in _SPEAKING :: _STEP.get(family, 1)]:
            for words in ("no arguments", "whole"):
                yield _attempt(f"{words}, {stop}", family, Turn(calls=_CALLS[words], stop=stop))
        for words in _OPEN:
            if family not in ("chat", "converse"):  # the first has no end of a call
                yield _attempt(f"{words}, tool_use", family, Turn(calls=_CALLS[words]))


def _broken() -> Iterator[Attempt]:
    """Replies that break off in the middle of their call."""
    turn = Turn(calls=(_WHOLE,), pieces=4)
    for family in FAMILIES:
        for events in _BREAKS.get(family, (3, 6, 11)):
            for how in ("close", "clean", "reset"):
                yield _attempt(f"{how} after {events} events", family, Cut(turn, events, how))
            for kind in ("overloaded_error", "api_error"):
                yield _attempt(f"{kind} after {events} events", family, ErrorEvent(turn, events, kind))


def _elsewhere() -> Iterator[Attempt]:
    """Replies to a child, to an advisor, and such as are in the log when a session goes on."""
    for family in list(FAMILIES)[:-1]:
        spawn = Turn(calls=[Call("AgentSpawn", {"prompt": "go"})])
        for words in ("no arguments", "without its last brace"):
            cut = Turn(calls=_CALLS[words], stop="max_tokens")
            yield _attempt(f"{words}, of a child", family, spawn, cut)
            yield _attempt(f"{words}, gone on with", family, *[cut] * 3, again=True)
        yield _attempt(
            "withdrawn, gone on with", family, Turn(calls=_CALLS["whole"], stop="content_filter"), again=True
        )
        yield _attempt("urgent again and again", family, *[Turn(calls=_CALLS["no arguments"], stop="max_tokens")] * 9)


# Calls that a model writes as text, cut at the output limit.
_TEXTS = (
    '<tool_call>\n{"name": "wipe", "arguments": {}',
    '<tool_call>\n{"name": "wipe"',
    '<tool_call>\n{"name": "Bash", "arguments": {"command": "touch ../made"}',
    '<tool_call>\n{"name": "Bash", "arguments": {"command": "touch ../made"}}',
    '<tool_call>\n{"name": "Bash", "arguments": {"command": "touch ../made',
    '```json\n{"name": "wipe", "arguments": {}',
    '{"name": "wipe", "parameters": {}',
    "<function=Bash><parameter=command>touch ../made",
    "<function=wipe>",
    '<invoke name="Bash"><parameter name="command">touch ../made',
    '<invoke name="wipe">',
    "[wipe(",
    '[Bash(command="touch ../made"',
    "[TOOL_CALLS]wipe{",
    '[TOOL_CALLS][{"name": "wipe", "arguments": {}',
    "<|python_tag|>wipe(",
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.wipe:0<|tool_call_argument_begin|>{",
    "<|start|>assistant<|channel|>commentary to=functions.wipe <|message|>{",
    "```bash\ntouch ../made",
    'wipe: {"path": "ma',
)


def _written() -> Iterator[Attempt]:
    for text in _TEXTS:
        for flags in (("--tool-calls", "text"), ()):
            yield _attempt(f"{text!r} {flags}", "chat", Turn(text=text, stop="max_tokens"), flags=flags)


def _stream(*events: str) -> Raw:
    lines = "".join(f"data: {event}\n\n" for event in events)
    return Raw(200, (("content-type", "text/event-stream"),), lines.encode())


def _asked(arguments: str, finish: str = "null", number: int = 0) -> str:
    function = f'{{"name": "wipe", "arguments": {arguments}}}'
    call = f'{{"index": {number}, "id": "c{number}", "type": "function", "function": {function}}}'
    return f'{{"id": "c", "choices": [{{"index": 0, "delta": {{"tool_calls": [{call}]}}, "finish_reason": {finish}}}]}}'


def _end(finish: str) -> str:
    return f'{{"id": "c", "choices": [{{"index": 0, "delta": {{}}, "finish_reason": {finish}}}]}}'


def _ends(finish: str, beside: str) -> str:
    return f'{{"id": "c", "choices": [{{"index": 0, "delta": {{}}, "finish_reason": "{finish}", {beside}}}]}}'


def _part(part: str, finish: str = "") -> str:
    ended = f', "finishReason": "{finish}"' if finish else ""
    return f'{{"candidates": [{{"content": {{"role": "model", "parts": [{part}]}}, "index": 0{ended}}}]}}'


_WORST = ("length", "content_filter", "refusal", "model_length", "MAX_TOKENS")
_RAW = (
    ("chat", (_asked('""'), "[DONE]")),
    ("chat", (_asked('""'), _end("null"), "[DONE]")),
    ("chat", (_asked('""'), _end('"length"'))),
    ("chat", (_asked('"{}"'), _end('"length"'), "[DONE]")),
    ("chat", (_asked('"{}"'), _end('"content_filter"'), "[DONE]")),
    ("chat", (_asked('"{\\"path\\": \\"ma"'), _end('"tool_calls"'), "[DONE]")),
    ("chat", (_asked("null"), _end('"length"'), "[DONE]")),
    ("chat", (_asked('"{}"', '"length"'), "[DONE]")),
    ("chat", (_asked('""'), _asked('""', number=1), _end('"length"'), "[DONE]")),
    ("chat", (_asked('""'), _end('"eot_reached"'), "[DONE]")),
    ("chat", (_asked('""'), "not json", "[DONE]")),
    ("chat", (_asked('""'),)),
    ("chat", (_asked('""'), '{"error": {"message": "overloaded"}}', "[DONE]")),
    ("google", (_part('{"functionCall": {"name": "wipe", "willContinue": true}}', "STOP"),)),
    ("google", (_part('{"functionCall": {"name": "wipe", "args": {"path": "made"}, "willContinue": true}}', "STOP"),)),
    ("google", (_part('{"functionCall": {"name": "wipe"}}', "MAX_TOKENS"),)),
    ("google", (_part('{"functionCall": {"name": "wipe"}}'),)),
    ("google", (_part('{"functionCall": {"name": "wipe"}}', "MALFORMED_FUNCTION_CALL"),)),
    ("google", (_part('{"functionCall": {"name": "wipe"}}', "PROHIBITED_CONTENT"),)),
    (
        "google",
        (
            _part('{"functionCall": {"name": "wipe", "partialArgs": [{"jsonPath": "$.path", "stringValue": "ma"}]}}'),
            _part("", "STOP"),
        ),
    ),
    ("google", (_part('{"functionCall": {"name": "wipe"}}', "SPII"),)),
    # Ends that are followed by better ones, or by an error, and words of gateways.
    *(("chat", (_asked('"{}"'), _end(f'"{first}"'), _end('"stop"'), "[DONE]")) for first in _WORST),
    ("chat", (_asked('"{}"'), _end('"tool_calls"'), '{"error": {"message": "guardrail", "code": "400"}}', "[DONE]")),
    *(("chat", (_asked('"{}"'), _end(f'"{word}"'), "[DONE]")) for word in ("cancelled", "timeout", "preempted")),
    *(
        ("google", (_part('{"functionCall": {"name": "wipe", "args": {}}}'), _part("", first), _part("", "STOP")))
        for first in ("MAX_TOKENS", "SAFETY")
    ),
    ("google", (_part('{"functionCall": {"name": "wipe"}}, {"text": "", "thoughtSignature": "eA=="}', "MAX_TOKENS"),)),
    # Stop sequences and refusals beside a reason that says that all is well, and an object that says nothing.
    *(
        ("chat", (_asked(arguments), _ends(finish, beside), "[DONE]"))
        for arguments in ('""', '"{}"', '"{\\"path\\": \\"made\\"}"')
        for finish in ("stop", "tool_calls")
        for beside in ('"stop_reason": "###"', '"matched_stop": "\\n\\n"', '"native_finish_reason": "stop_sequence"')
    ),
    ("chat", (_asked('"{}"'), "[DONE]")),
    ("chat", (_asked('"{}"'), _end('"eot_reached"'), "[DONE]")),
    ("chat", ('{"choices": [{"index": 0, "delta": {"refusal": "No."}}]}', _asked('"{}"', '"tool_calls"'), "[DONE]")),
    ("google", (_part('{"functionCall": {"name": "wipe"}}', 'STOP", "finishMessage": "Stopped at a stop sequence.'),)),
)

ATTEMPTS = (
    *_stopped(), *_broken(), *_elsewhere(), *_written(),
    *(_attempt(f"a stream by hand: {events}", family, _stream(*events)) for family, events in _RAW),
)  # fmt: skip


def _control(family: str) -> Attempt:
    def missing(base: Path, forks: Forks) -> Sequence[str]:
        return [] if _effects([Turn(calls=[Call("wipe", "")])], family, base, forks) else ["a whole call was not made"]

    return Attempt(f"a whole call, {family}", missing)


CONTROLS = tuple(map(_control, FAMILIES))
