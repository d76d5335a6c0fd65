"""Command lines of awk: recognizes those that certainly only print the text they read.

https://pubs.opengroup.org/onlinepubs/9799919799/utilities/awk.html: `system` and pipes run commands, `print > FILE`
writes, `getline` and ARGV read files that no argument names; gawk's `@` loads and calls more.
"""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sagent.policy.shell import Word

AWKS = frozenset({"awk", "gawk", "mawk", "nawk", "original-awk", "goawk"})
_OPTION = re.compile(r"-F.+|-v\w+=.*", re.DOTALL)
_ACTS = re.compile(r"system|getline|ARGV|[@|]|print.*>", re.DOTALL)  # anywhere in the program


def only_prints(program: str) -> bool:
    """Return True if an awk program certainly runs no command and opens no file."""
    return _ACTS.search(re.sub(r"\\\n", "", program).replace("||", " ").replace(">=", " ")) is None


def awk_acts(arguments: "Sequence[Word]", start: int = 0) -> bool:
    """Return True if one of the words from `start` on may make awk do more than print its input."""
    has_program = ends = False
    value = ""
    for at, word in enumerate(arguments):
        text, harmless = word.text, word.kind == "literal"
        if value:
            harmless, value = harmless and (value == "-F" or "=" in text), ""
        elif not ends and not has_program and text.startswith("-"):
            ends = text == "--"
            value = text if text in ("-F", "-v") else ""
            harmless = harmless and bool(ends or value or _OPTION.fullmatch(text))
        elif not has_program:
            has_program, harmless = True, harmless and only_prints(text)
        else:
            harmless = word.kind != "dynamic"
        if not harmless and at >= start:
            return True
    return False
