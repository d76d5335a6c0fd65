"""The check of a policy's verdict at run time: not everybody has a type checker."""

from typing import Never

from sagent.errors import ToolError
from sagent.policy import Verdict


def checked(policy: object, call: str, verdict: Verdict) -> Verdict:
    """Return the verdict of a policy on a call of this name. Raises ToolError where that is none: what is not judged is
    not done."""
    if not isinstance(verdict, Verdict):  # pyright: ignore[reportUnnecessaryIsInstance] -- as above
        raise no_verdict(policy, call, verdict)
    return verdict


def no_verdict(policy: object, call: str, given: Never) -> ToolError:
    """Return the error that names a policy which has given something else, for the model and whoever reads along."""
    name = type(getattr(policy, "inner", policy)).__name__
    return ToolError(
        f"{call} was not run: {name}.before_tool returned {given!r:.60}, and it must return "
        "Allow, Deny, Ask or Hold, of sagent.policy."
    )
