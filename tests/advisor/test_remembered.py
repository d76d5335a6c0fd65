"""Who advises is part of a session: its log says it, and whoever goes on with it has the same advisors."""

import pytest

from sagent.advisor.roster import recall
from sagent.errors import UsageError


@pytest.mark.parametrize(
    ("changes", "who", "off"),
    [
        ((), [], []),
        (("advisors advisor=a/b; critic=c/d,max_calls=2",), ["advisor=a/b", "critic=c/d,max_calls=2"], []),
        (
            ("advisors advisor=a/b", "advisor critic=c/d,tools=Read,Grep"),
            ["advisor=a/b", "critic=c/d,tools=Read,Grep"],
            [],
        ),
        (("advisors advisor=a/b", "advisor advisor=e/f"), ["advisor=e/f"], []),
        (("advisors advisor=a/b", "advisor all off"), ["advisor=a/b"], ["advisor"]),
        (("advisors advisor=a/b; x=c/d", "advisor x off", "advisor all on"), ["advisor=a/b", "x=c/d"], []),
        (("advisors advisor=a/b", "advisor all off", "advisors x=c/d"), ["x=c/d"], []),
        (("advisors advisor=a/b", "advisors none"), [], []),
    ],
)
def test_the_changes_of_a_log_say_who_advises(changes: tuple[str, ...], who: list[str], off: list[str]) -> None:
    found, silent = recall(changes)
    assert ([str(one) for one in found], list(silent)) == (who, off)


def test_what_names_nobody_is_told() -> None:
    with pytest.raises(UsageError):
        recall(["advisor =,"])
