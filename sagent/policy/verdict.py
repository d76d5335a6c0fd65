"""What a policy has said of a call, checked: not everybody has a type checker."""

from typing import Never

from sagent.errors import ToolError
from sagent.policy import Verdict


def checked(policy: object, verdict: Verdict) -> Verdict:
    """The verdict of a policy. Raises ToolError where that is none: what cannot be judged is not done."""
    if not isinstance(verdict, Verdict):  # pyright: ignore[reportUnnecessaryIsInstance] -- as above
        raise no_verdict(policy, verdict)
    return verdict


def no_verdict(policy: object, given: Never) -> ToolError:
    """The error that names a policy which has given something else, for the model and whoever reads along."""
    return ToolError(
        f"The call was not made: {type(policy).__name__}.before_tool returned {given!r:.60}, and it must return "
        "Allow, Deny, Ask or Hold, of sagent.policy."
    )
