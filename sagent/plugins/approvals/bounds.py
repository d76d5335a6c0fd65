"""The bounds of a reviewer, judged by code: it may allow what mode edit allows and what can be undone, and no more."""

import re
from collections.abc import Iterator
from copy import copy
from pathlib import Path

from sagent.advisor.destruction import destroys, is_destroyer
from sagent.lib.text import one_line
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
    {"bill", "buy", "charge", "checkout", "deploy", "merge", "pay", "payment", "payout", "promote", "publish", "push"}
    | {"purchase", "refund", "release", "rollback", "rollout", "send", "ship", "submit", "transfer", "upload", "yank"}
)
"""Words that make a program send something to others, or pay for it."""
_BRANCHES = frozenset({"checkout", "merge"})  # of git, which keeps what they change
SENDERS = frozenset(
    {"ftp", "lftp", "mail", "mailx", "msmtp", "mutt", "rsync", "scp", "sendmail", "sftp", "stripe", "swaks", "twine"}
)
"""Programs that send something to others."""
_POSTS = re.compile(
    r"(?:curl|wget|https?|xh)\b.*?(?:\s-\w*[dFT]\b|\s--(?:data|form|json|upload|post|body)\b|\s--(?:data|form|post|body)-"
    r"|(?:-X|--request|--method)[ =]?(?!GET\b|HEAD\b)\w|\s(?:POST|PUT|PATCH)\b)",
    re.DOTALL,
)


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
    return destroys(command, cwd) or _POSTS.search(command) is not None or any(map(_is_sent, _lines(command)))


def _lines(command: str) -> Iterator[tuple[Word, ...]]:
    """Yield the command lines of a script, those inside of wrappers too."""
    return (words for part in split(command).parts for words, _ in runs(part) if words)


def _is_sent(words: tuple[Word, ...]) -> bool:
    name, texts = program(words[0]), [word.text.lower() for word in words[1:]]
    if name in SENDERS:
        return True
    acts = ACTS - _BRANCHES if name == "git" else ACTS
    bare = (text for text in texts if not re.search(r"[\s/.=]", text))
    return any(not acts.isdisjoint(re.split(r"[^a-z]+", text)) for text in bare)
