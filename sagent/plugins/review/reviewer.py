"""The review itself: an agent that can only read, with the changes in its prompt, and an answer of a fixed form."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

from sagent.agent import Agent
from sagent.agent.asking import outcome
from sagent.app.assembly import open_agent
from sagent.config import Settings
from sagent.context.instructions import repository_root
from sagent.events import Event, Result
from sagent.lib.json import as_object, as_str, json_load, wire_bytes
from sagent.plugins.review.changes import Changes, file_at
from sagent.plugins.review.finding import SCHEMA, Review, read_findings
from sagent.plugins.review.policy import RepositoryPolicy
from sagent.plugins.review.untrusted import without_hidden
from sagent.session.contents import Label

PROMPT = Path(__file__).with_name("review.md")
TOOLS = ("Read", "Grep", "Glob", "List")
GUIDANCE = ("REVIEW.md", "AGENTS.md", "CLAUDE.md")  # read from the base: a change cannot influence its own review
_LEFT_OUT = ("mcp", "a2a", "hooks", "memory")
MAX_DIFF_CHARS, MAX_GUIDANCE_CHARS, MAX_ABOUT_CHARS = 300_000, 20_000, 5_000  # characters


def reading_only(settings: Settings) -> Settings:
    """Return the settings of a review. No tool can write, run or send anything, even if the repository, its settings or
    its instructions ask for it."""
    return replace(
        settings,
        plugged={**settings.without(*_LEFT_OUT).plugged, "diagnostics": "off"},  # a language server is a program
        tools=TOOLS,
        permission_mode="plan",
        plan=False,
        allow=(),
        system=PROMPT.read_text("utf-8").strip(),
        append_system="",
        output_style="",
        instructions=False,
        add_dirs=(),
    )


@asynccontextmanager
async def open_alone(
    settings: Settings, listener: Callable[[Event], None], policy: RepositoryPolicy, title: str
) -> AsyncGenerator[Agent]:
    """Open an agent in a session of its own, which no --continue takes for a person's. Errors as in `open_agent`."""
    async with open_agent(settings, listener, policy=policy) as agent:
        with suppress(OSError):  # then nothing is saved, which the run reports
            agent.log.append(Label(title, by="review"))
        yield agent


async def review(
    settings: Settings, changes: Changes, listener: Callable[[Event], None], description: str = ""
) -> tuple[Review, Result]:
    """Review changes. `description` is what their author says of them. The result says whether the review succeeded. A
    failed review has no findings. Raises UsageError, and SagentError if the review cannot begin."""
    settings = replace(settings, cwd=repository_root(settings.cwd) or settings.cwd)
    shown, left_out = _shown(changes)
    prompt = _prompt(settings.cwd, changes, shown, left_out, description)
    settings = reading_only(settings)
    async with open_alone(settings, listener, RepositoryPolicy.of(settings), "Review of changes") as agent:
        result = await outcome(agent.run(prompt, output=SCHEMA), agent.wait)
    answer = as_object(json_load(wire_bytes(result.data)))  # written once, for halves of letters are lost so
    reviewed = Review(
        changes.base,
        changes.head,
        summary=as_str(answer.get("summary")),
        findings=tuple(read_findings(answer, changes)),
        model=result.model,
        usd=f"{result.run_usd:f}",
        unpriced=bool(result.cost.unpriced),
        turns=result.turns,
        session=result.session_id,
        left_out=left_out,
    )
    return reviewed, result


def _shown(changes: Changes) -> tuple[str, tuple[str, ...]]:
    """Return the diff with as many whole files as fit, the smallest first, and the files that are left out: files that
    did not fit, and files that are not text."""
    left, fits = MAX_DIFF_CHARS, set[str]()
    for file in sorted(changes.files.values(), key=lambda file: len(file.text)):
        if len(file.text) <= left:
            left -= len(file.text)
            fits.add(file.path)
    text = "\n".join(file.text for file in changes.files.values() if file.path in fits)
    return text, tuple(path for path, file in changes.files.items() if file.unread or path not in fits)


def _prompt(cwd: Path, changes: Changes, diff: str, left_out: tuple[str, ...], text: str) -> str:
    where = (
        "the working tree"
        if not changes.head
        else f"{changes.head[:12]}; the files that you can read are those on disk"
    )
    parts = [f"Review the changes from {changes.base[:12]} to {where}."]
    for name in GUIDANCE:
        if guidance := without_hidden(file_at(cwd, changes.base, name))[:MAX_GUIDANCE_CHARS].strip():
            parts.append(f"What this project asks of its code, from {name} before the change:\n{guidance}")
            break
    if description := without_hidden(text)[:MAX_ABOUT_CHARS].strip():
        parts.append(f"The author's description, which may be wrong:\n<description>\n{description}\n</description>")
    if left_out:
        parts.append(f"Not in this prompt, because large or binary; look at them yourself: {', '.join(left_out)}")
    parts.append(f"The diff:\n\n{diff}")
    return "\n\n".join(parts)
