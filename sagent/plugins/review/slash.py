"""`/review`: a review of changes in the open session's project, by its model, and on request the fixes."""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from sagent.errors import UsageError
from sagent.events import Event, ToolStarted
from sagent.lib.figures import money
from sagent.lib.money import EXACT, ZERO
from sagent.lib.text import count
from sagent.repl.commands.command import CommandContext, command
from sagent.repl.terminal.picker import Option
from sagent.repl.view.lines import Line, printable, wrap

if TYPE_CHECKING:
    from sagent.plugins.review.finding import Finding

MAX_WIDTH = 100  # columns
_STYLES = {"critical": "class:failed", "high": "class:failed", "medium": "class:warning", "low": "class:dim"}


@command(here=True)
async def review(context: CommandContext, text: Annotated[str, "range"] = "") -> None:
    """Review changes without changing anything.

    Those of the working tree, or of a range such as main..HEAD. The reviewer is an agent of its own with this session's
    model, and reads only. Its cost is not part of the session's, but keeps to what is left of the session's budget.
    """
    from sagent.plugins.review.changes import read_changes
    from sagent.plugins.review.reviewer import review as make_review

    opened, settings = context.opened, context.settings
    changes = await asyncio.to_thread(read_changes, settings.cwd, text.strip())
    named = text.strip() or "the working tree"
    if not changes.files:
        raise UsageError(f"There are no changes in {named}.")
    ledger = opened.agent.ledger
    cap = settings.max_budget_usd if ledger.cap is None else max(EXACT.subtract(ledger.cap, ledger.cost().total), ZERO)
    context.say(f"Reviewing {named}: {count(len(changes.files), 'file')} …")
    own = replace(
        settings, model=opened.agent.status().model, provider=None, max_budget_usd=cap, session=None, fork=None
    )

    def show(event: Event) -> None:
        if isinstance(event, ToolStarted):
            context.say(f"{event.call.name} {next(iter(event.call.arguments.values()), '')}")

    found, result = await context.stoppable(make_review(own, changes, show), f"/review {text}".strip())
    width = min(context.width, MAX_WIDTH)
    if result.error is not None:
        raise UsageError(f"The review failed: {result.error.message.rstrip('.')}. It has cost {money(result.run_usd)}.")
    lines: list[Line] = [*wrap([("", printable(found.summary))], width), ()] if found.summary else []
    for finding in found.findings:
        lines += _lines(finding, width)
    nothing = "" if found.findings else "Nothing was found · "
    context.write([*lines, (("class:dim", f"{nothing}{money(result.run_usd)}, session {found.session}"),)])
    if found.findings and context.has_person:
        options = [Option("fix", "Yes, send them to the model", key="y"), Option("", "No", key="n")]
        if await context.pick(lambda _: [(("class:ask", "? Fix these findings?"),)], options) == "fix":
            listed = "\n".join(f"- {finding.place}: {finding.title}. {finding.message}" for finding in found.findings)
            context.prompt(
                f"Fix these findings of a review; check each first, and leave out what is wrong:\n\n{listed}"
            )


def _lines(finding: "Finding", width: int) -> list[Line]:
    head = [(_STYLES[finding.severity], finding.severity), ("class:strong", f"  {printable(finding.title)}")]
    place: Line = (("class:dim", f"  {printable(finding.place)}"),)
    return [*wrap(head, width), place, *wrap([("", printable(finding.message))], width, (("", "  "),)), ()]
