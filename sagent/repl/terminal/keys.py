"""Keys and what they do. What they mean is the REPL's; here is only which key asks for it, and when."""

from typing import TYPE_CHECKING, Literal, Protocol

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import (
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

    from sagent.repl.questions import Questions
    from sagent.repl.terminal.picker import Picker
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
    def questions(self) -> "Questions":
        """What the person is asked."""
        ...

    def submit(self, moment: Literal["now", "idle"]) -> None:
        """Send what was typed."""
        ...

    def hold_paste(self, text: str) -> str:
        """Keep a long paste, and give its place holder."""
        ...

    def recall_queued(self) -> bool:
        """Take the last queued message back into the input; False where there is none."""
        ...

    def can_background(self) -> bool:
        """Whether a call runs that can go on in the background."""
        ...

    def background(self) -> None:
        """Have what runs go on in the background."""
        ...

    def interrupt(self) -> None:
        """Stop the turn."""
        ...

    def rewind(self) -> None:
        """Go back to an earlier message."""
        ...

    def clear_or_quit(self) -> None:
        """Ctrl-C: clear the input, else interrupt, else quit when it is pressed twice."""
        ...

    def quit(self) -> None:
        """Leave."""
        ...

    def expand(self) -> None:
        """Show all there is to the last block that can be expanded."""
        ...

    def clear_screen(self) -> None:
        """Begin at the top of the screen."""
        ...

    def edit(self) -> None:
        """Open the input in the person's editor."""
        ...

    def paste_image(self) -> None:
        """Attach the image in the clipboard."""
        ...

    def suspend(self) -> None:
        """Stop the process until it is brought back."""
        ...


def bind_keys(screen: "Screen", hands: KeyActions) -> KeyBindings:
    """All of ours; prompt_toolkit's emacs and vi keys hold besides."""
    keys = KeyBindings()
    picking = Condition(lambda: hands.questions.picker is not None)
    typing = ~picking & ~is_searching
    _bind_input(keys, screen, hands, typing)
    _bind_turn(keys, screen, hands, typing)
    _bind_picker(keys, hands, picking)
    return keys


def _bind_input(keys: KeyBindings, screen: "Screen", hands: KeyActions, typing: Filter) -> None:  # noqa: C901 -- a table of keys
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
            hands.submit("now")

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
        elif buffer.text.strip() and hands.busy:
            hands.submit("idle")

    @keys.add("s-tab", filter=focused & has_completions)
    def _(event: KeyPressEvent) -> None:
        buffer.complete_previous()

    @keys.add("up", filter=focused & empty & ~has_completions)
    def _(event: KeyPressEvent) -> None:
        if not hands.recall_queued():
            buffer.auto_up()

    @keys.add(Keys.BracketedPaste, filter=focused)
    def _(event: KeyPressEvent) -> None:
        text = event.data.replace("\r\n", "\n").replace("\r", "\n")
        if len(text) > LONG_PASTE or text.count("\n") > LONG_LINES:
            text = hands.hold_paste(text)
        buffer.insert_text(text)

    @keys.add("c-x", "c-e", filter=focused)
    def _(event: KeyPressEvent) -> None:
        hands.edit()

    @keys.add("c-v", filter=focused & ~vi_navigation_mode)  # in place of quoted insertion, which Ctrl-Q does too
    @keys.add("c-x", "c-v", filter=focused)
    def _(event: KeyPressEvent) -> None:
        hands.paste_image()


def _bind_turn(keys: KeyBindings, screen: "Screen", hands: KeyActions, typing: Filter) -> None:
    buffer = screen.buffer
    busy = Condition(lambda: hands.interruptible)
    vi_typing = vi_insert_mode & Condition(lambda: bool(buffer.text))

    @keys.add("escape", filter=typing & has_completions)
    def _(event: KeyPressEvent) -> None:
        buffer.complete_state = None

    @keys.add("escape", filter=typing & busy & ~has_completions & ~vi_typing)
    def _(event: KeyPressEvent) -> None:
        hands.interrupt()

    @keys.add("escape", "escape", filter=typing & ~busy & ~vi_typing)
    def _(event: KeyPressEvent) -> None:
        hands.rewind()

    @keys.add("c-b", filter=typing & Condition(hands.can_background))
    def _(event: KeyPressEvent) -> None:
        hands.background()

    @keys.add("c-c")
    def _(event: KeyPressEvent) -> None:
        hands.clear_or_quit()

    @keys.add("c-d", filter=typing & Condition(lambda: not buffer.text))
    def _(event: KeyPressEvent) -> None:
        hands.quit()

    @keys.add("c-o", filter=typing)
    def _(event: KeyPressEvent) -> None:
        hands.expand()

    @keys.add("c-l")
    def _(event: KeyPressEvent) -> None:
        hands.clear_screen()

    @keys.add("c-z")
    def _(event: KeyPressEvent) -> None:
        hands.suspend()


def _bind_picker(keys: KeyBindings, hands: KeyActions, picking: Condition) -> None:  # noqa: C901 -- a table of keys
    def on(*names: str) -> "Callable[[Act], None]":
        def register(act: "Act") -> None:
            def handle(event: KeyPressEvent) -> None:
                if (picker := hands.questions.picker) is not None:
                    act(picker, event)
                    get_app().invalidate()

            for name in names:
                keys.add(name, filter=picking, eager=True)(handle)

        return register

    @on("up", "c-p", "s-tab")
    def _(picker: "Picker[object]", event: KeyPressEvent) -> None:
        picker.move(-1)

    @on("down", "c-n", "tab")
    def _(picker: "Picker[object]", event: KeyPressEvent) -> None:
        picker.move(1)

    @on("enter", "c-j")
    def _(picker: "Picker[object]", event: KeyPressEvent) -> None:
        if not hands.questions.answer_in_words():
            picker.enter()

    @on("escape", "c-g", "c-c", "c-d")
    def _(picker: "Picker[object]", event: KeyPressEvent) -> None:
        picker.leave()

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
            hands.questions.type(event.data)
        else:
            picker.type(event.data)


def replace_text(buffer: Buffer, text: str) -> None:
    """Put a text into the input, the cursor behind it; undo brings back what was there."""
    buffer.save_to_undo_stack()
    buffer.text = text
    buffer.cursor_position = len(text)
