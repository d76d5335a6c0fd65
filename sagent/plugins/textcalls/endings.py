"""Judge how a run ends: with an answer, or with words in place of what was asked for.

The calls of the run and their results decide. The reply's text counts only where these say that nothing was done. Any
doubt is for the model: a question is answered by whatever it says, a refused call excuses it, and so does a reply that
asks something or says that there is nothing to do.
"""

import re
import shlex
from collections.abc import Callable, Container, Iterator, Sequence
from functools import cache
from typing import Literal, NamedTuple

from sagent.agent.progress import UNPROVEN
from sagent.context.plan import is_planning
from sagent.lib.json import as_str
from sagent.messages import Message, ToolCall, ToolResult
from sagent.plugins.textcalls.offer import PROTOCOL_FILE
from sagent.plugins.textcalls.task import (
    alters,
    alters_files,
    asks,
    check_in,
    commands_to_run,
    demanded_checks,
    is_shown_file,
    is_test,
    last_request,
    moves_file,
    path_to_change,
    path_to_make,
    paths_in,
    renamed_in,
    said_in,
    sorts,
)
from sagent.plugins.textcalls.writing import ANSWER, CHECK, DONE, NEXT, NO_OUTPUT, OUTPUT

FAILED_CHECK, UNFINISHED = "failed_check", "unfinished"
"""Stop reasons of runs that end as if they were done."""
PATHLESS = (
    "Nothing was changed: your block has no path. Write the path {path} on a line of its own and then the whole new"
    " file in a block."
)
UNMENDED = "Then change it. Write the path {path} on a line of its own and then the whole new file in a block."
UNMADE = "{path} was not written. Write the path {path} on a line of its own and then the whole file in a block."
UNDONE = "Nothing was changed yet. Write the path {path} on a line of its own and then the whole new file in a block."
UNSORTED = "{path} is as it was. Write a ```bash block with a program that reads {path} and writes it anew."
UNMOVED = "Nothing was changed yet. Write a ```bash block with the command that does it."
UNRENAMED = (
    "{old} is still in {files}. If that is the same {old}, write this block:\n\n"
    "```bash\nperl -pi -e 's/\\b{old}\\b/{new}/g' {each}\n```"
)
UNANSWERED = "That is no answer: it was the wrong command. Write another one, as simple as can be, in a ```bash block."
UNRUN = "Nothing was run. Run {command} in a ```bash block."
FAILED = "It failed, so nothing is done yet. Write a ```bash block with another command."
STILL_FAILS = "{check} still fails. Change what is wrong, or say in plain words why it cannot pass."
ANNOUNCED = (
    "You said what you are going to do, and nothing was changed or run yet. Make the call now. If nothing is left to"
    " do, say so in plain words."
)
ECHOED = (
    "That is what you were told: nothing was done yet. If it is still to be done, write the block again. If not, say in"
    " plain words what you did not do."
)
MIN_ECHO_WORDS = 4
MAX_ENDING_CHARS = 4_000

_BLOCK = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
_LAUNCHERS = (
    *("python", "python2", "python3", "py", "sh", "bash", "zsh", "node", "uv", "run", "poetry", "npx", "pnpm", "exec"),
    *("time", "sudo", "env"),
)
_WRITES = re.compile(  # commands that change files
    r"\bsed\s+(?:-\w+\s+)*-i|\btee\b|(?<![<>&\d])>{1,2}(?!&)\s*(?!/dev/null)[\w./~\"'$]"
    r"|\b(?:mv|cp|rm|patch|touch|mkdir|git\s+(?:apply|checkout|restore|reset|stash|mv|rm))\s"
)
_LOOKS = re.compile(
    r"\s*(?:cat|ls|grep|rg|find|head|tail|wc|pwd|echo|printf|tree|stat|file|less|which|nl|cut|tr|uniq|diff|jq|sed\s+-n|"
    r"sort(?!.*\s-o)|awk|git\s+(?:log|diff|status|show|grep|branch|blame))\b"
)
_LOOKING = ("Read", "Grep", "Glob", "List")
_SHELL_COMMENT = re.compile(r"(?m)^[ \t]*#(?!!).*$")
_SEPARATE = re.compile(r"[|;\n]|&&")
_SHOWN_FAILURE = re.compile(
    r"(?m)^Traceback \(most recent call last\)|^FAILED\b|\b[1-9]\d* (?:failed|failures?|errors?)\b|^(?:not ok|FAIL)\b"
)
_NOTHING_TO_DO = re.compile(
    r"\balready\b|\bno (?:\w+ )?(?:bugs?|errors?|faults?|problems?|issues?|changes?|need|such)\b"
    r"|\bnothing (?:to|needs?|is wrong|has to)\b|\b(?:not|n['’]t) (?:needed|necessary|required|exist|there|need)\b"
    r"|\bis (?:fine|correct|right|ok(?:ay)?)\b",
    re.IGNORECASE,
)
_MARKS_FILES = re.compile(r"\b(?:chmod|chown|chgrp|touch|git|ln|setfacl|setfattr|xattr)\b")  # without a new content
_SAYS_EMPTY = re.compile(
    r"\b(?:command|it|script|output)\s+(?:did\s+not|didn['\u2019]t|has|had|gave|printed|is|was)\s+(?:produce|print|give|return|show)?\s*"
    r"(?:any|anything|no|empty|nothing)\b",
    re.IGNORECASE,
)
_OFFERS = re.compile(  # names a way to look, in place of the answer
    r"\b(?:you|we|one)\s+(?:can|could|may|should|need\s+to)\s+(?:\w+\s+){0,2}?(?:use|run|execute|try|write)\s+(?:the\s+|a\s+)?"
    r"(?:following\b|commands?\b|tools?\b|[`*\"']{0,2}(?:bash|grep|cat|find|sed|awk|git|ls|wc|head|tail|python3?|read|glob|"
    r"write|edit)\b)",
    re.IGNORECASE,
)
_WAY = re.compile(
    r"\bhow\b|\bcommands?\b|\btools?\b|\bcan I\b|\b(?:explain|suggest|recommend|propose)\b", re.IGNORECASE
)
_ANNOUNCES = re.compile(
    r"(?:(?:okay|ok|sure|great|certainly|alright|now|next|first|then|so|to do (?:this|that|so))\b[,.!:]?\s+){0,3}"
    r"(?:I(?:['\u2019]ll|\s+will|['\u2019]m\s+going\s+to|\s+am\s+going\s+to|\s+(?:need|have)\s+to)|let(?:\s+me|['\u2019]s)"
    r"|we(?:['\u2019]ll|\s+will|\s+need\s+to))\s+"
    r"(?:(?:now|then|first|next|also|start|begin|by|go|ahead|and|proceed|to|try|quickly)\s+){0,4}"
    r"(?:edit|fix|chang|updat|modify|writ|creat|add|remov|delet|renam|run|execut|check|look|read|open|inspect|examin|search"
    r"|find|apply|mak|implement|replac|list|view|test|verify|correct|mov|sort|set|insert|refactor|use|call)(?:e|ing|ning|ting)?\b",
    re.IGNORECASE,
)
_FENCED = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_SENDER = re.compile(r"(?im)^\[from \w+\][ \t]*")
_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n")
Done = tuple[ToolCall, ToolResult]
"""A call and its result."""


class Fault(NamedTuple):
    """Something missing where a run ends. Each `kind` is told once, in the words `told`; a run that leaves it so has
    the stop reason."""

    kind: Literal["undone", "echo", "unchecked", "unmended"]
    told: str

    @property
    def reason(self) -> str:
        """The stop reason."""
        return UNFINISHED if self.kind in ("undone", "echo") else FAILED_CHECK


class Ending(NamedTuple):
    """The end of a run: its history, with the reply last; the senders of requests; and functions that say whether there
    is a tool of a name, and a file of a path."""

    history: Sequence[Message]
    senders: Container[str]
    can: Callable[[str], bool]
    exists: Callable[[str], bool]
    unrenamed: Sequence[str] = ()
    """Paths of the files that still have a name which the request says to replace."""
    unchanged: Callable[[str], bool] = lambda path: False
    """Returns True for a file that is as it was when the model saw it."""

    def fault(self) -> Fault | None:
        """Return what is missing; None for an answer."""
        at = last_request(self.history, self.senders)
        done = [*_done(self.history[at + 1 :])]
        if at < 0 or not (self.can("Write") or self.can("Bash")) or is_planning(self.history):
            return None
        if any(result.denied for _, result in done):
            return None
        request, reply = self.history[at], self.history[-1].content
        path = path_to_change(self.history, at)
        if path and not done and _BLOCK.search(reply):
            return Fault("undone", PATHLESS.format(path=path))
        if fault := self._failing(request, done, path):
            return fault
        if (new := path_to_make(request)) and not self.exists(new) and not _is_named(new, done):
            return Fault("undone", UNMADE.format(path=new))
        if not any(map(_has_effect, done)) and (fault := self._undone(request, reply, done, path)):
            return fault
        if path and self._left_unchanged(request, reply, done, path):
            return Fault("undone", (UNSORTED if sorts(request) else UNDONE).format(path=path))
        if self.unrenamed and done:
            old, new = renamed_in(request)
            told = {"files": ", ".join(self.unrenamed), "each": shlex.join(self.unrenamed)}
            return Fault("undone", UNRENAMED.format(old=old, new=new, **told))
        if done and done[-1][1].text.strip() in ("", NO_OUTPUT) and asks(request) and _SAYS_EMPTY.search(reply):
            return Fault("undone", UNANSWERED)
        if repeats_harness(reply, done):
            return Fault("echo", DONE)
        unrun = (check for check in self._checks(request) if _state_of(check.strip("`"), done) == "unrun")
        return next((Fault("unchecked", CHECK.format(check=check)) for check in unrun), None)

    def _checks(self, request: Message) -> Sequence[str]:
        """Return the checks that have to pass and that the model can run."""
        return demanded_checks(request) if self.can("Bash") else ()

    def _only_shown(self) -> str:
        """Return the one file beside tests that was shown after a failed command; "" if there is none, or several."""
        shown = (path for message in self.history if is_shown_file(message) for path in paths_in(message.parts))
        left = {path for path in shown if not is_test(path)}
        return left.pop() if len(left) == 1 else ""

    def _failing(self, request: Message, done: Sequence[Done], path: str) -> Fault | None:
        """Return the fault of a check that the request names and that failed after the last change. One that need not
        pass counts only if it was run last, and there is one file to change."""
        for check in self._checks(request):
            if _state_of(check.strip("`"), done) == "failed":
                path = path or self._only_shown()
                return Fault("unmended", UNMENDED.format(path=path) if path else STILL_FAILS.format(check=check))
        named = check_in(request).strip("`")
        failed = path and named and done and named in _command(done[-1][0]) and done[-1][1].is_error
        return Fault("unmended", UNMENDED.format(path=path)) if failed else None

    def _left_unchanged(self, request: Message, reply: str, done: Sequence[Done], path: str) -> bool:
        """Return True if commands ran, and the file that the request says to change is as it was."""
        if not done or not alters_files(request) or _NOTHING_TO_DO.search(reply):
            return False
        others = any(call.name != "Bash" or _MARKS_FILES.search(_command(call)) for call, _ in done)
        return not others and self.unchanged(path)

    def _undone(self, request: Message, reply: str, done: Sequence[Done], path: str) -> Fault | None:
        """Return the fault of a run without an effect: what was ordered was not changed or run, or the reply only names
        a way to find out what was asked."""
        if reply.rstrip().endswith("?"):
            return None
        ran = any(call.name == "Bash" for call, _ in done)
        if self.can("Bash") and not ran and (orders := commands_to_run(request)):
            return Fault("undone", UNRUN.format(command=orders[0]))
        if alters_files(request) and not _NOTHING_TO_DO.search(reply):
            moved = self.can("Bash") and moves_file(request)
            return Fault("undone", UNMOVED if moved else UNDONE.format(path=path) if path else UNPROVEN)
        if done and done[-1][1].is_error and alters(request) and not _NOTHING_TO_DO.search(reply):
            return Fault("undone", FAILED)
        if not done and not asks(request) and (announces(reply) or _words(reply) == _words(said_in(request))):
            return Fault("undone", UNPROVEN)
        if not done and _OFFERS.search(reply) and not _WAY.search(request.content):
            return Fault("undone", UNPROVEN)
        return None


def _done(messages: Sequence[Message]) -> Iterator[Done]:
    """Yield the calls of these messages that have a result."""
    calls: dict[str, ToolCall] = {}
    for message in messages:
        calls |= {call.id: call for call in message.calls}
        yield from ((calls[result.call_id], result) for result in message.results if result.call_id in calls)


def _command(call: ToolCall) -> str:
    return as_str(call.arguments.get("command")) if call.name == "Bash" else ""


def _state_of(check: str, done: Sequence[Done]) -> Literal["unrun", "passed", "failed"]:
    """Return the state of a check after the last change."""
    words = [word for word in check.split() if word not in _LAUNCHERS and not word.startswith("-")]
    wanted = [word.removeprefix("./") for word in words] or [check]
    state: Literal["unrun", "passed", "failed"] = "unrun"
    for call, result in done:
        command = _command(call)
        if command and all(word in command for word in wanted):
            failed = result.is_error or (_SEPARATE.search(command) and _SHOWN_FAILURE.search(result.text))
            state = "failed" if failed else "passed"
        elif _has_changed(call, result):
            state = "unrun"
    return state


def _has_changed(call: ToolCall, result: ToolResult) -> bool:
    """Return True for a call that is known to have changed a file."""
    return not result.is_error and (call.name in ("Write", "Edit") or bool(_WRITES.search(_command(call))))


def _has_effect(done: Done) -> bool:
    """Return True for a call that may have done what was asked: any but a look."""
    call, result = done
    if result.is_error:
        return False
    command = _command(call)
    parts = [part for part in _SEPARATE.split(command) if part.strip()]
    looks = bool(parts) and not _WRITES.search(command) and all(map(_LOOKS.match, parts))
    return not looks and call.name not in _LOOKING


def _is_named(path: str, done: Sequence[Done]) -> bool:
    """Return True if a call that succeeded names a file of this name: it may have been made elsewhere."""
    name = path.rpartition("/")[2]
    named = (as_str(call.arguments.get(key)) for call, result in done if not result.is_error for key in call.arguments)
    return any(name in _SHELL_COMMENT.sub("", each) for each in named)


@cache
def _harness_sentences() -> Container[str]:
    """Return the sentences that models read in every conversation, and that say nothing of its task."""
    texts = (OUTPUT, NO_OUTPUT, NEXT, ANSWER, DONE, PROTOCOL_FILE.read_text("utf-8"))
    found = (part.strip() for text in texts for part in _SENTENCES.split(text))
    return {part for part in found if len(part.split()) > 1}


def repeats_harness(reply: str, done: Sequence[Done]) -> bool:
    """Return True for a reply of nothing but the protocol's own sentences, perhaps with the last result: the model
    continues the conversation in place of answering. A bare result may be the answer."""
    words = [part.strip() for part in _SENTENCES.split(_SENDER.sub("", reply)) if part.strip()]
    ours = [part for part in words if part in _harness_sentences()]
    result = " ".join(done[-1][1].text.split()) if done else ""
    return bool(ours) and all(part in ours or " ".join(part.split()) in result for part in words)


def _words(text: str) -> Sequence[str]:
    """Return a text's words without punctuation and case."""
    return re.findall(r"\w+", text.casefold())


def announces(reply: str) -> bool:
    """Return True for a reply whose last sentence, beside blocks of code, says what its author will do next."""
    sentences = [part.strip() for part in _SENTENCES.split(_FENCED.sub("", reply[-MAX_ENDING_CHARS:])) if part.strip()]
    return bool(sentences) and _ANNOUNCES.match(sentences[-1]) is not None


def echoes(reply: str, text: str) -> bool:
    """Return True for a reply that repeats a long sentence of the note."""
    known = " ".join(text.split())
    sentences = (" ".join(each.split()) for each in _SENTENCES.split(reply))
    return any(sentence in known for sentence in sentences if len(sentence.split()) > MIN_ECHO_WORDS)
