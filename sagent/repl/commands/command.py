"""Slash commands: decorated functions. The docstring is the help, and the parameters are the arguments."""

import asyncio
import inspect
import re
import shlex
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Concatenate, Literal, ParamSpec, TypeVar, get_args, get_origin

from sagent.errors import SagentError, UsageError
from sagent.lib.dataclass import dataclass
from sagent.lib.text import nearest
from sagent.repl.opening import CurrentSession, SessionChoices
from sagent.repl.terminal.picker import Lookup, Option, Shown
from sagent.repl.view.lines import Line, plain, printable

if TYPE_CHECKING:
    from sagent.config import Settings

P = ParamSpec("P")
T = TypeVar("T")
DEFAULT_WIDTH = 100  # columns without a terminal
DisplaySetting = Literal["theme", "vim"]


class CommandContext(CurrentSession):
    """The session, and person if there is one, that a slash command works with. This class has no person: methods that
    need one raise UsageError, and `prompts` collects messages to send."""

    def __init__(self) -> None:
        super().__init__()
        self.has_person = False
        self.turn = asyncio.Lock()  # held by whoever works on the conversation
        self.commands: Mapping[str, Command] = {}
        self.prompts: list[str] = []
        self.notes: dict[object, object] = {}  # what commands keep for later ones, by any key

    def _write(self, text: str) -> None:
        """Write a text and a line end."""
        raise NotImplementedError

    def write(self, lines: Sequence[Line]) -> None:
        """Show lines."""
        self._write(plain(lines))

    def say(self, text: str) -> None:
        """Show a sentence."""
        self._write(printable(text))

    def require_person(self, flag: str) -> None:
        """Raise UsageError if a change that only a person may make comes from a prompt, which may be a file's."""
        if not self.has_person:
            raise UsageError(f"A prompt cannot change this: give {flag} on the command line.")

    async def pick(self, title: str | Shown, options: Sequence[Option[T]], lookup: Lookup[T] | None = None) -> T | None:
        """Let the person choose from a list, whose options may be looked up meanwhile, or by a key below a text; None
        for no choice. A terminal that only prints takes a number or name, and raises UsageError for any other."""
        if not self.has_person:
            names = ", ".join(option.also or option.label for option in options[:20])
            raise UsageError(f"{title} There is no terminal to choose on; give it after the command: {names}")
        rows = (f"{number:3} {option.label}  {option.hint}".rstrip() for number, option in enumerate(options, 1))
        self._write("\n".join((title if isinstance(title, str) else plain(title(80)), *rows)))
        said = (await self.line("number: ") or "").strip()
        for number, option in enumerate(options, 1):
            if said in (str(number), option.label):
                return option.value
        if said:
            raise UsageError(f"{said!r} is not in the list: give a number from 1 to {len(options)}, or a name.")
        return None

    @property
    def width(self) -> int:
        """The columns of what is shown."""
        return DEFAULT_WIDTH

    async def stoppable(self, work: Coroutine[None, None, T], shown: str) -> T:
        """Wait for work that may take long. The person sees it as `shown` meanwhile, and may stop it: UsageError."""
        del shown
        return await work

    async def line(self, label: str, *, secret: bool = False) -> str | None:
        """Let the person type a line; a `secret` one is not shown."""
        del secret
        raise UsageError(f"{label.rstrip(': ')}: there is no terminal to type on")

    async def edit(self, text: str) -> str:
        """Return a text as the person leaves it in their editor."""
        del text
        raise UsageError("There is no terminal for an editor.")

    def prompt(self, text: str) -> None:
        """Send a message as if the person had typed it."""
        self.prompts.append(text)

    def send_filled(self, text: str) -> None:
        """Send a message whose mentioned files were already added; no more are."""
        self.prompt(text)

    def rewound(self, text: str) -> None:
        """Put `text` into the input to be edited, after the conversation went back."""

    def copy(self, text: str) -> None:
        """Put a text into the clipboard."""
        raise UsageError("There is no terminal with a clipboard.")

    def enter(self, agent: str) -> None:
        """Read along with an agent, and talk to it."""
        raise UsageError("There is no terminal to follow another agent on.")

    def recall(self, limit: int) -> None:
        """Show the last messages of the conversation again."""
        raise UsageError("There is no terminal to show them on; `/export md` writes the conversation into a file.")

    def reopen(self, settings: "Settings", choices: SessionChoices | None = None, shown_instead: str = "") -> None:
        """Close the session and open another, in which the person has made these choices already. `said` is shown in
        place of its conversation, which is on the screen."""
        raise UsageError("Without a terminal, choose a session with --session, --continue or --fork.")

    def set_display(self, setting: DisplaySetting, value: str) -> None:
        """Change the theme, or vi keys ("on", "off", "" to toggle)."""
        raise UsageError(f"There is no terminal to set a {setting} for.")

    def leave(self) -> None:
        """End the REPL; other runs end by themselves."""

    def unknown(self, name: str) -> UsageError:
        """Return the error for an unknown command, with the nearest one. A leading blank would make it a message."""
        if owner := self.settings.plugins.former_owner(f"/{name}"):
            return UsageError(f"`/{name}` is a command of the plugin {owner}, which is not loaded. It was not sent.")
        from difflib import get_close_matches

        near = [*self._beginning(name), *get_close_matches(name, self.commands, 1, 0.6)]
        hint = f"Did you mean {' or '.join(f'/{one}' for one in dict.fromkeys(near))}?" if near else "See /help."
        return UsageError(
            f"There is no command /{name}. {hint} It was not sent; put a space first to send it as a message."
        )

    def known(self, name: str) -> str:
        """Return the command of that name, or the only one with that prefix; "" if there is none."""
        found = [name] if name in self.commands else self._beginning(name)
        return found[0] if len(found) == 1 else ""

    def _beginning(self, name: str) -> list[str]:
        return sorted(one for one in self.commands if one.startswith(name))

    def names(self) -> list[tuple[str, str]]:
        """Return all commands, each with its summary."""
        return [(name, one.summary) for name, one in sorted(self.commands.items())]

    def arguments(self, name: str, typed: str) -> list[tuple[str, str]]:
        """Return completions for a command's first argument, given its typed part."""
        found = self.commands.get(name)
        if found is None or not found.arguments or " " in typed:
            return []
        try:
            known = list(found.completions(self))
        except SagentError:
            known = []
        return [*known, *((word, "") for word in found.arguments[0].choices)]


Rows = Iterable[tuple[str, str]]
Completions = Rows | Callable[[CommandContext], Rows]
"""Possible first arguments, each with a few words."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One parameter. `choices` are the accepted words, () for any; `rest` takes the rest of the line; a `label` is read
    by the person in place of the name."""

    name: str
    required: bool
    choices: tuple[str, ...] = ()
    rest: bool = False
    label: str = ""

    @property
    def shown(self) -> str:
        return self.label or self.name


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command, or a person's own defined in a file."""

    name: str
    help: str
    arguments: tuple[Argument, ...]
    run: Callable[[CommandContext, Mapping[str, str]], Awaitable[None]]
    complete: Completions = ()
    here: bool = False  # it works on the machine of the session alone

    def completions(self, context: CommandContext) -> Rows:
        return self.complete(context) if callable(self.complete) else self.complete

    @property
    def summary(self) -> str:
        return self.help.partition("\n")[0]

    @property
    def usage(self) -> str:
        """The command as it is typed."""
        words = [f"<{argument.shown}>" if argument.required else f"[{argument.shown}]" for argument in self.arguments]
        return " ".join((f"/{self.name}", *words))

    def read(self, text: str) -> dict[str, str]:
        """Parse the text after the command into arguments. Raises UsageError that lists the accepted ones."""
        found: dict[str, str] = {}
        rest = text.strip()
        for argument in self.arguments:
            word, rest = (rest, "") if argument.rest else _first(rest)
            if not word and argument.required:
                rows = () if callable(self.complete) or argument is not self.arguments[0] else self.complete
                known = ", ".join(argument.choices or (one for one, _ in rows))
                raise UsageError(
                    f"/{self.name} needs {argument.shown}{known and f', which is one of {known}'}: {self.usage}"
                )
            if word and argument.choices and word not in argument.choices:
                accepted = f"{', '.join(argument.choices)}{nearest(word, argument.choices) or '.'}"
                raise UsageError(f"/{self.name}: {word!r} is not accepted; accepted are {accepted}")
            if word:
                found[argument.name] = word
        if rest:
            raise UsageError(f"/{self.name} takes no {rest!r}: {self.usage}")
        return found


def _first(text: str) -> tuple[str, str]:
    """Return the first word of a line, which may be quoted, and the rest."""
    if match := re.match(r"""("(?:\\.|[^"\\])*"|'[^']*')\s*""", text):
        return shlex.split(match[1])[0], text[match.end() :]
    word, _, rest = text.partition(" ")
    return word, rest.strip()


def command(
    *, name: str = "", complete: Completions = (), here: bool = False
) -> Callable[[Callable[Concatenate[CommandContext, P], Awaitable[None]]], Command]:
    """Make a command of `async def model(context, name="")`. Parameters are strings; a Literal lists the accepted
    words, one named `text` takes the rest of the line, and Annotated[str, "directory"] is shown as that word. A command
    that is `here` needs the session's own machine."""

    def make(run: Callable[Concatenate[CommandContext, P], Awaitable[None]]) -> Command:
        def call(context: CommandContext, arguments: Mapping[str, str]) -> Awaitable[None]:
            return run(context, **arguments)  # pyright: ignore[reportCallIssue] -- `read` made them of its own parameters

        text = inspect.cleandoc(run.__doc__ or "")
        name_of = name or run.__name__.replace("_", "-")
        return Command(name_of, text, tuple(_arguments(run)), call, complete, here)

    return make


def _arguments(run: Callable[..., object]) -> Iterable[Argument]:
    for parameter in list(inspect.signature(run, eval_str=True).parameters.values())[1:]:
        kind: object = parameter.annotation
        kinds: tuple[object, ...] = (kind,) if get_origin(kind) is Literal else get_args(kind)
        choices = tuple(str(word) for one in kinds if get_origin(one) is Literal for word in get_args(one) if word)
        required = parameter.default is inspect.Parameter.empty
        label = str(getattr(kind, "__metadata__", ("",))[0])
        yield Argument(parameter.name, required, choices, parameter.name == "text", label)


def split_command(text: str) -> tuple[str, str] | None:
    """Return name and rest of a line that is a command or a misspelt one; None for a message, such as a path with
    several parts, or a line that starts with a blank."""
    match = re.match(r"/([^\s/]+)(?:\s+(.*))?$", text.rstrip(), re.DOTALL)
    return (match[1].lower(), match[2] or "") if match else None


async def run_command(context: CommandContext, name: str, text: str) -> None:
    """Run a command by name. Raises UsageError with the nearest name for an unknown one, and the command's errors."""
    found = context.commands.get(context.known(name))
    if found is None:
        raise context.unknown(name)
    if found.here:
        context.require_here(f"/{found.name}")
    await found.run(context, found.read(text))
