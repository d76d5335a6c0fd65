"""Events as plain text: for a terminal that can do nothing else, and for when the display has failed."""

from typing import assert_never

from sagent.events import (
    AdviceDelta,
    Advised,
    Denied,
    Event,
    Finished,
    Notice,
    Received,
    ReplyFinished,
    Retrying,
    SessionOpened,
    Switched,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)


def plain_text(event: Event) -> str:
    """What there is to say of an event, "" for nothing. The text of a reply comes as it streams."""
    who = "" if event.agent == "root" else f"{event.agent}: "
    match event:
        case TextDelta(_, text):
            return "" if who else text
        case ToolFinished(_, call, result, _, summary, diff):
            failed = " failed" if result.is_error else ""
            return f"{who}* {call.name}{failed}: {summary or 'done'}\n{diff}".rstrip("\n")
        case Retrying(_, reason, _, attempt, seconds, discarded):
            anew = discarded and not seconds  # what follows is no retry, but a reply that begins anew
            when = "the reply begins again" if anew else f"trying again in {seconds:.1f} s (attempt {attempt + 1})"
            gone = "; what was said above no longer counts" if discarded and not who else ""
            return f"{who}! {reason.rstrip('.')}; {when}{gone}"
        case Advised(_, advice):
            return f"{who}{advice.advisor} ({advice.trigger}): {advice.verdict or advice.status}\n{advice.text}"
        case Denied(_, denial):
            return f"{who}! {denial.tool} was denied: {denial.reason}"
        case Switched(_, what):
            return f"{who}{what}"
        case Notice(_, _, text):
            return f"{who}! {text}"
        case Finished(_, result):
            return f"{who}! {result.error.message}" if result.error else ""
        case Received(_, message):
            return f"{who}{message.sender}: {message.content}" if message.sender else ""
        case SessionOpened() | ThinkingDelta() | ReplyFinished() | ToolStarted() | ToolProgress() | AdviceDelta():
            return ""
        case _:
            assert_never(event)
