"""Checks a policy's verdict at run time, because not everybody uses a type checker."""

from typing import Never

from sagent.errors import ToolError
from sagent.policy import Verdict


def checked(policy: object, call: str, verdict: Verdict) -> Verdict:
    """Return the verdict of a policy on a call of this name. Raises ToolError for any other value: it is not made."""
    if not isinstance(verdict, Verdict):  # pyright: ignore[reportUnnecessaryIsInstance] -- as above
        raise no_verdict(policy, call, verdict)
    return verdict


def no_verdict(policy: object, call: str, value: Never) -> ToolError:
    """Return the error for a value that is no verdict; it names the policy, for the model and the person."""
    name = type(getattr(policy, "inner", policy)).__name__
    return ToolError(
        f"{call} was not run: {name}.before_tool returned {value!r:.60}, and it must return "
        "Allow, Deny, Ask or Postpone, of sagent.policy."
    )
