"""Which key asks for what, and when; `KeyActions` does it."""

from typing import TYPE_CHECKING, Literal, Protocol

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import (
    Always,
    Condition,
    Filter,
    has_completions,
    has_focus,
    is_searching,
    vi_insert_mode,
    vi_navigation_mode,
)
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from sagent.repl.terminal.picker import Picker
    from sagent.repl.terminal.questions import Questions
    from sagent.repl.terminal.screen import Screen

    Act = Callable[[Picker[object], KeyPressEvent], None]

LONG_PASTE = 2_000  # characters; a longer paste is shown as a place holder
LONG_LINES = 12


class KeyActions(Protocol):
    """What keys can do."""

    @property
    def busy(self) -> bool:
        """Whether a turn is in progress."""
        ...

    @property
    def interruptible(self) -> bool:
        """Whether there is something that Esc stops."""
        ...

    @property
    def questions(self) -> "Questions": ...

    def submit(self, moment: Literal["now", "idle"]) -> None:
        """Send what was typed: to be read now, or when the turn would end."""

    def hold_paste(self, text: str) -> str:
        """Keep a long paste, and give its place holder."""
        ...

    def recall_queued(self) -> bool:
        """Take the last queued message back into the input; False where there is none."""
        ...

    def edit(self) -> None:
        """Open the input in the person's editor."""

    def paste_image(self) -> None:
        """Attach the image in the clipboard."""

    def can_background(self) -> bool:
        """Whether a call runs that can go on in the background."""
        ...

    def background(self) -> None:
        """Move running calls to the background."""

    def interrupt(self) -> None:
        """Stop the turn, and shell commands of the person's."""

    def rewind(self) -> None:
        """Choose an earlier request to go back to."""

    def clear_or_quit(self) -> None:
        """Clear the input, else interrupt; quit when pressed twice."""

    def quit(self) -> None: ...

    def expand(self) -> None:
        """Show the last block that can be expanded in full; again, the one before."""

    def clear_screen(self) -> None:
        """Begin at the top of the screen."""

    def suspend(self) -> None:
        """Stop the process until it is brought back."""


def bind_keys(screen: "Screen", actions: KeyActions) -> KeyBindings:
    """All of ours; prompt_toolkit's emacs and vi keys work too."""
    keys = KeyBindings()
    picking = Condition(lambda: actions.questions.picker is not None)
    typing = ~picking & ~is_searching
    _bind_input(keys, screen, actions, typing)
    _bind_turn(keys, screen, actions, typing)
    _bind_picker(keys, actions, picking)
    return keys


def _bind_input(keys: KeyBindings, screen: "Screen", actions: KeyActions, typing: Filter) -> None:  # noqa: C901 -- a table of keys
    buffer = screen.buffer
    focused = typing & has_focus(buffer)
    empty = Condition(lambda: not buffer.text)

    @keys.add("enter", filter=focused)
    def _(event: KeyPressEvent) -> None:
        if (state := buffer.complete_state) is not None and state.current_completion is not None:
            buffer.complete_state = None
            if not buffer.text.startswith("/") and len(state.completions) > 1:  # one of several was chosen: that is all
                return
        if buffer.document.char_before_cursor == "\\" and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            actions.submit("now")

    @keys.add("escape", "enter", filter=focused)
    @keys.add("c-j", filter=focused)
    def _(event: KeyPressEvent) -> None:
        buffer.insert_text("\n")

    waiting = ""  # for the completions of this text, whose first is wanted

    def choose_first(_: Buffer) -> None:
        nonlocal waiting
        state = buffer.complete_state
        if waiting and state is not None and state.completions and state.complete_index is None:
            if waiting == buffer.document.text_before_cursor:
                buffer.go_to_completion(0)
            waiting = ""

    buffer.on_completions_changed += choose_first

    @keys.add("tab", filter=focused)
    def _(event: KeyPressEvent) -> None:
        from sagent.repl.terminal.completion import is_completable

        nonlocal waiting
        waiting = ""
        if (state := buffer.complete_state) is not None and state.completions:
            buffer.complete_next()
        elif is_completable(text := buffer.document.text_before_cursor):
            waiting = text  # they may be under way already, without a choice
            buffer.start_completion(select_first=True)
        elif buffer.text.strip() and actions.busy:
            actions.submit("idle")

    keys.add("s-tab", filter=focused & has_completions)(_handler(buffer.complete_previous))
    keys.add("c-x", "c-e", filter=focused)(_handler(actions.edit))
    # in place of quoted insertion, which Ctrl-Q does too
    keys.add("c-v", filter=focused & ~vi_navigation_mode)(_handler(actions.paste_image))
    keys.add("c-x", "c-v", filter=focused)(_handler(actions.paste_image))

    @keys.add("up", filter=focused & empty & ~has_completions)
    def _(event: KeyPressEvent) -> None:
        if not actions.recall_queued():
            buffer.auto_up()

    @keys.add(Keys.BracketedPaste, filter=focused)
    def _(event: KeyPressEvent) -> None:
        text = event.data.replace("\r\n", "\n").replace("\r", "\n")
        if len(text) > LONG_PASTE or text.count("\n") > LONG_LINES:
            text = actions.hold_paste(text)
        buffer.insert_text(text)


def _bind_turn(keys: KeyBindings, screen: "Screen", actions: KeyActions, typing: Filter) -> None:
    buffer = screen.buffer
    busy = Condition(lambda: actions.interruptible)
    vi_typing = vi_insert_mode & Condition(lambda: bool(buffer.text))

    def close_completions() -> None:
        buffer.complete_state = None

    table: tuple[tuple[str, Filter, Callable[[], None]], ...] = (
        ("escape", typing & has_completions, close_completions),
        ("escape", typing & busy & ~has_completions & ~vi_typing, actions.interrupt),
        ("escape escape", typing & ~busy & ~vi_typing, actions.rewind),
        ("c-b", typing & Condition(actions.can_background), actions.background),
        ("c-c", Always(), actions.clear_or_quit),
        ("c-d", typing & Condition(lambda: not buffer.text), actions.quit),
        ("c-o", typing, actions.expand),
        ("c-l", Always(), actions.clear_screen),
        ("c-z", Always(), actions.suspend),
    )
    for names, condition, act in table:
        keys.add(*names.split(), filter=condition)(_handler(act))


def _handler(act: "Callable[[], None]") -> "Callable[[KeyPressEvent], None]":
    return lambda event: act()


def _bind_picker(keys: KeyBindings, actions: KeyActions, picking: Condition) -> None:  # noqa: C901 -- a table of keys
    def on(*names: str) -> "Callable[[Act], None]":
        def register(act: "Act") -> None:
            def handle(event: KeyPressEvent) -> None:
                if (picker := actions.questions.picker) is not None:
                    act(picker, event)
                    get_app().invalidate()

            for name in names:
                keys.add(name, filter=picking, eager=True)(handle)

        return register

    on("up", "c-p", "s-tab")(lambda picker, event: picker.move(-1))
    on("down", "c-n", "tab")(lambda picker, event: picker.move(1))
    on("escape", "c-g", "c-c", "c-d")(lambda picker, event: picker.leave())

    @on("enter", "c-j")
    def _(picker: "Picker[object]", event: KeyPressEvent) -> None:
        if not actions.questions.answer_in_words():
            picker.enter()

    @on("backspace")
    def _(picker: "Picker[object]", event: KeyPressEvent) -> None:
        if picker.keys:
            event.current_buffer.delete_before_cursor()
        else:
            picker.rub()

    @on("<any>")
    def _(picker: "Picker[object]", event: KeyPressEvent) -> None:
        if not event.data.isprintable():
            return
        if picker.keys:
            actions.questions.type(event.data)
        else:
            picker.type(event.data)
