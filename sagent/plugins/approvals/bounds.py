"""The bounds of a reviewer, judged by code: it may allow what mode edit allows and what can be undone, and no more."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import cache
from itertools import pairwise
from pathlib import Path

from sagent.advisor.destruction import SOURCING, destroys, is_destroyer, programs_of, recipe_of
from sagent.lib.regular import read_regular
from sagent.lib.text import one_line
from sagent.lib.toml import toml_beside
from sagent.messages import ToolCall
from sagent.plugins.approvals.reviewer import MAX_SHOWN_CHARS
from sagent.policy import Allow, Ask, Verdict
from sagent.policy.permissions import PermissionPolicy
from sagent.policy.shell import Word, program, split
from sagent.policy.wrappers import runs
from sagent.tool import Effect, Workspace

MAX_REVIEWED_CHARS = 8_000
"""Characters of a call's arguments; a longer call is for a person."""
ACTS = frozenset(
    {"bill", "buy", "charge", "checkout", "deploy", "kill", "merge", "pay", "payment", "payout", "promote", "publish"}
    | {"purchase", "push", "reboot", "refund", "release", "rollback", "rollout", "send", "ship", "shutdown", "submit"}
    | {"transfer", "upload", "yank"}
)
"""Words that make a program send something to others, or pay for it."""
_PYTHON, _MODULE = re.compile(r"(?:python|pypy|ipython)[\d.]*"), re.compile(r"-[A-Za-ln-z]*m(.*)")
_IMPORTS = re.compile(r"\b(?:import|from)\s+(\w[\w.]*)")
_MAX_MODULE_BYTES = 1 << 18
MAX_DEPTH = 3
"""Scripts that run scripts; deeper ones are in doubt."""


@cache
def _table(name: str) -> Mapping[str, Sequence[str]]:
    """Return a table of bounds.toml, which says what each is for."""
    tables: Mapping[str, Mapping[str, Sequence[str]]] = toml_beside(__file__, "bounds.toml")
    return tables[name]


@cache
def _pattern(name: str) -> re.Pattern[str]:
    return re.compile("|".join(_table("patterns")[name]), re.IGNORECASE | re.DOTALL)


@cache
def _usual_names() -> Mapping[str, str]:
    return {other: name for name, others in _table("same").items() for other in others}


async def beyond_bounds(policy: PermissionPolicy, call: ToolCall, effect: Effect, workspace: Workspace) -> Verdict:
    """Return Allow for a call that a reviewer may allow, otherwise what the person is asked, and why.

    What mode edit would ask is beyond: deny rules in doubt, keys, hosts that are not listed, protected files, files
    outside the project, and whatever runs without a sandbox. So are acts that cannot be undone.
    """
    edit = copy(policy)  # with the present rules
    edit.mode = "edit"
    verdict = await edit.before_tool(call, effect, workspace)
    if not isinstance(verdict, Allow):
        return verdict
    if effect.kind == "write":
        return verdict
    shown = f"`{one_line(effect.command, MAX_SHOWN_CHARS)}`" if effect.command else call.name
    if not effect.confined:
        return Ask(f"{shown} would run without a sandbox, so no reviewer may allow it.")
    if len(effect.command) > MAX_REVIEWED_CHARS:
        return Ask(f"{shown} is too long for a reviewer.")
    if cannot_be_undone(call.name, effect.command, workspace.cwd):
        return Ask(f"{shown} may do what cannot be undone, so no reviewer may allow it.")
    return verdict


def cannot_be_undone(tool: str, command: str, cwd: Path) -> bool:
    """Return True if a call may destroy something, send it to others, or pay. In doubt it does."""
    if not command:
        return is_destroyer(tool)
    return destroys(command, cwd) or _pattern("code").search(command) is not None or _acts_elsewhere(command, cwd)


def _acts_elsewhere(script: str, cwd: Path, depth: int = 0) -> bool:
    """Return True if a script may send something, pay, or change what is not the project's. So may what it runs."""
    for words, sure in ((words, sure) for part in split(script).parts for words, sure in runs(part) if words):
        if _is_outside(words, sure=sure):
            return True
        inner = _script_of(words, cwd)
        if inner and (depth >= MAX_DEPTH or destroys(inner, cwd) or _acts_elsewhere(inner, cwd, depth + 1)):
            return True
        if any(destroys(f"python -c {shlex.quote(code)}", cwd) for code in _modules_of(words, script, cwd)):
            return True
    return False


def _script_of(words: tuple[Word, ...], cwd: Path) -> str:
    """Return the recipe or the shell script in a file that a command line runs."""
    name, texts = program(words[0]), [word.text for word in words[1:]]
    if recipe := recipe_of(name, texts, cwd):
        return recipe
    if name not in SOURCING and "/" not in words[0].text:
        return ""
    text = programs_of(shlex.join([words[0].text, *texts]), cwd)
    return text if name in SOURCING or re.match(r"#!.*\b\w*sh\b|(?!#!)", text) else ""


def _modules_of(words: tuple[Word, ...], script: str, cwd: Path) -> Iterator[str]:
    """Yield the text of the project's Python modules that a command line of a script runs or imports by name."""
    texts = [word.text for word in words[1:]]
    if not _PYTHON.fullmatch(program(words[0])):
        return
    names = [match[1] or after for text, after in pairwise([*texts, ""]) if (match := _MODULE.fullmatch(text))]
    for name in (*names, *_IMPORTS.findall(script)):
        path = name.replace(".", "/")
        for file in (f"{path}.py", f"{path}/__init__.py", f"{path}/__main__.py"):
            with suppress(OSError, ValueError):
                yield read_regular(cwd / file, max_bytes=_MAX_MODULE_BYTES, cut=True).decode("utf-8", "replace")


def _is_outside(words: tuple[Word, ...], *, sure: bool) -> bool:
    """Return True if a command line's effect may be outside of the project."""
    name, texts = program(words[0]), [word.text for word in words[1:]]
    name = _usual_names().get(name, name)
    if texts in (["--help"], ["--version"]):
        return False
    if name in _table("lists")["senders"] or (
        sure and name in (*_table("lists")["machine"], *_table("lists")["secrets"])
    ):
        return True
    line = " ".join(text for text in texts if " " not in text and "\n" not in text)
    if known := _table("looks").get(name):
        return not _begins(line, known)
    if _begins(line, _table("bars").get(name, ())):
        return True
    if (known := _table("fetches").get(name)) and not _only_fetches(texts, known):
        return True
    if name in _table("lists")["httpies"] and any(map(_pattern("items").fullmatch, texts)):
        return True
    bare = (name, *(text.rpartition(".")[2] for text in texts if not re.search(r"[\s/=]", text)))
    acts = (re.split(r"[^a-z]+", text.lower()) for text in bare if text != "--release")
    return name != "git" and any(map(ACTS.intersection, acts))


def _begins(line: str, known: Sequence[str]) -> bool:
    """Return True if a line begins with one of these patterns."""
    return any(re.match(rf"(?:{each})(?![\w:-])", line) for each in known)


def _only_fetches(texts: Sequence[str], known: Sequence[str]) -> bool:
    """Return True if every option of a command line is a known one, and none names another method."""
    pattern = re.compile("|".join(known))
    options = [text for text in texts if text.startswith("-")]
    if any(re.match(r"@|(?!https?:)\w+://", text) for text in texts if not text.startswith("-")):
        return False  # a file to send, or another protocol
    methods = [after for text, after in pairwise([*texts, ""]) if text in ("-X", "--request", "--method")]
    return all(map(pattern.fullmatch, options)) and all(method in ("GET", "HEAD") for method in methods)
