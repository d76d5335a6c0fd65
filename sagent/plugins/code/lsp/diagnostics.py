"""Servers' errors in a file, and the new ones after a change."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from sagent.lib.dataclass import dataclass
from sagent.lib.json import as_array, as_int, as_object, as_str
from sagent.lib.text import count, one_line, printable, same_ends
from sagent.plugins.code.lsp.text import END

MAX_ERRORS = 10  # of a file to show
_MAX_DIAGNOSTICS = 2_000  # of a file; nobody reads more
_WIDTH = 300  # characters of a message
_ERROR = 1


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """An error. `line` and `column` count from 1; `column` in UTF-16 units, as servers count. `rule` is its code."""

    line: int
    column: int
    message: str
    rule: str = ""
    server: str = ""

    def __str__(self) -> str:
        by = " ".join(filter(None, (self.server, self.rule)))
        return f"{self.line}:{self.column} {self.message} ({by})"


Found = tuple[str, Sequence[Diagnostic]]
"""Return the error as a line of text."""


def read_errors(items: object, server: str) -> tuple[Diagnostic, ...]:
    """Return the errors among diagnostics of the protocol; warnings and hints are left out."""
    found: dict[Diagnostic, None] = {}
    for item in map(as_object, as_array(items)[:_MAX_DIAGNOSTICS]):
        start = as_object(as_object(item.get("range")).get("start"))
        message = one_line(printable(as_str(item.get("message"))), _WIDTH)
        if as_int(item.get("severity"), _ERROR) == _ERROR and message:
            code = item.get("code")
            rule = one_line(printable(str(code)), 60) if isinstance(code, str | int) else ""
            line, column = as_int(start.get("line")) + 1, as_int(start.get("character")) + 1
            found[Diagnostic(line, column, message, rule, server)] = None
    return tuple(found)


def new_errors(before: Found, after: Found) -> list[Diagnostic]:
    """Return the errors in a text that were not in the one before: on unchanged lines the same error is old; of equal
    errors on changed lines, as many are old as there were."""
    moved = _moved(*(END.split(text) for text, _ in (before, after)))
    old = Counter((moved(error.line), error.message, error.rule) for error in before[1])
    left: list[Diagnostic] = []
    for error in after[1]:
        key = (error.line, error.message, error.rule)
        if old[key]:
            old[key] -= 1
        else:
            left.append(error)
    alike = Counter({(message, rule): 0 for _, message, rule in old})
    for (_, message, rule), number in old.items():
        alike[message, rule] += number
    new: list[Diagnostic] = []
    for error in left:
        if alike[error.message, error.rule]:
            alike[error.message, error.rule] -= 1
        else:
            new.append(error)
    return new


def _moved(before: Sequence[str], after: Sequence[str]) -> Callable[[int], int]:
    """Return a function from old lines to new ones, by equal beginnings and ends; 0 for a line in between."""
    head, tail = same_ends(before, after)

    def moved(line: int) -> int:
        if line <= head:
            return line
        return line + len(after) - len(before) if line > len(before) - tail else 0

    return moved


def report(news: Iterable[tuple[str, Sequence[Diagnostic]]]) -> str:
    """Report new errors to the model, by file; "" for none."""
    return "\n".join(line for name, errors in news if errors for line in _lines(name, errors))


def _lines(name: str, errors: Sequence[Diagnostic]) -> Iterator[str]:
    shown = sorted(errors, key=lambda error: (error.line, error.column))
    yield f"New {'error' if len(errors) == 1 else 'errors'} in {name}:"
    yield from map(str, shown[:MAX_ERRORS])
    if (more := len(shown) - MAX_ERRORS) > 0:
        yield f"and {count(more, 'more error')}"
