"""The IPython extension: how results, costs and agents are shown, and cells that begin with %%sagent."""

import re
from collections.abc import Callable, Iterator
from typing import Protocol, cast

from sagent.agent import Agent
from sagent.errors import UsageError
from sagent.events import Event, Result, ToolStarted
from sagent.lib.text import cut, main_argument, printable
from sagent.messages import ToolCall
from sagent.plugins.jupyter.interrupts import Interrupts
from sagent.plugins.jupyter.shown import cost_html, cost_line, result_html
from sagent.usage import Cost

_CELL = re.compile(r"%%sagent(?:[ \t]+([^\W\d]\w*))?[ \t]*\n")
_MAX_STATUS_CHARS = 100


class Formatter(Protocol):
    """An IPython formatter of one media type."""

    def for_type(self, typ: type, func: Callable[..., object] | None = None) -> object: ...
    def pop(self, typ: type, default: object = None) -> object: ...


class Printer(Protocol):
    """IPython's printer of plain text."""

    def text(self, obj: str) -> None: ...


class _Formatters(Protocol):
    formatters: dict[str, Formatter]


class _Events(Protocol):
    callbacks: dict[str, list[Callable[..., None]]]

    def register(self, event: str, function: Callable[..., None]) -> None: ...
    def unregister(self, event: str, function: Callable[..., None]) -> None: ...


class Shell(Protocol):
    """The part of IPython's InteractiveShell that is used here."""

    display_formatter: _Formatters
    events: "_Events"
    input_transformers_cleanup: list[Callable[[list[str]], list[str]]]
    user_ns: dict[str, object]


def load(shell: Shell) -> None:
    """Show sagent's types richly in a shell."""
    html, plain = (shell.display_formatter.formatters[kind] for kind in ("text/html", "text/plain"))

    def show(result: Result) -> str:
        return result_html(result, _agent_of(result, shell))

    html.for_type(Result, show)
    html.for_type(Cost, cost_html)
    plain.for_type(Result, _print_result)
    plain.for_type(Cost, _print_cost)
    if as_code not in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.append(as_code)
    interrupts = Interrupts(lambda: [agent for _, agent in _agents(shell)])
    shell.events.register("pre_run_cell", interrupts.begin)
    shell.events.register("post_run_cell", interrupts.end)


def unload(shell: Shell) -> None:
    """Undo `load`."""
    for kind in ("text/html", "text/plain"):
        for shown in (Result, Cost):
            shell.display_formatter.formatters[kind].pop(shown, None)
    if as_code in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.remove(as_code)
    for event in ("pre_run_cell", "post_run_cell"):
        for function in tuple(shell.events.callbacks[event]):
            if isinstance(getattr(function, "__self__", None), Interrupts):
                shell.events.unregister(event, function)


def as_code(lines: list[str]) -> list[str]:
    """Return a cell that begins with %%sagent as code that asks the agent of that name, "agent" by default."""
    text = "".join(lines)
    if (head := _CELL.match(text)) is None:
        return lines
    name, home = head[1] or "agent", "sagent.plugins.jupyter.extension"
    return [f"await __import__({home!r}, fromlist=['ask']).ask(get_ipython(), {name!r}, {text[head.end() :]!r})\n"]


async def ask(shell: Shell, name: str, prompt: str) -> Result:
    """Run an agent of the notebook on the text of a cell, and show what it is doing meanwhile. Raises UsageError."""
    agent = next((each for known, each in _agents(shell) if known == name), None)
    if agent is None:
        raise UsageError(f'there is no agent {name} to ask: {name} = Agent("...") makes it')
    status = _shown_status()

    def tell(event: Event) -> None:
        if isinstance(event, ToolStarted):
            status.update(_Status(_doing(event.call)))

    forget = agent.listen(tell)
    try:
        return await agent.run(prompt)
    finally:
        forget()
        status.update(_Status(""))


class _Handle(Protocol):
    def update(self, obj: object) -> None: ...


def _shown_status() -> _Handle:
    from IPython import display

    show = cast("Callable[..., _Handle]", getattr(display, "display"))  # noqa: B009 -- it is typed in part
    return show(_Status("…"), display_id=True)


class _Status:
    """Line about work in progress."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _doing(call: ToolCall) -> str:
    return cut(printable(f"{call.name} {main_argument(call.arguments)}".strip()), _MAX_STATUS_CHARS)


def _agents(shell: Shell) -> Iterator[tuple[str, Agent[object]]]:
    for name, value in tuple(shell.user_ns.items()):
        if isinstance(value, Agent):
            yield name, cast("Agent[object]", value)


def _agent_of(result: Result, shell: Shell) -> Agent[object] | None:
    """Return the agent of the notebook that has a result, for its calls."""
    return next((agent for _, agent in _agents(shell) if agent.log.session_id == result.session_id), None)


def _print_result(result: Result, printer: Printer, _cycle: object) -> None:
    wrong = f"\n{result.error.kind}: {result.error.message}" if result.error else ""
    lines = f"{result.content}{wrong}\n{cost_line(result)}".strip().split("\n")
    printer.text("\n".join(map(printable, lines)))


def _print_cost(cost: Cost, printer: Printer, _cycle: object) -> None:
    printer.text(printable(repr(cost)))
