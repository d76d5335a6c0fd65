"""Key bindings: the condition and action of each key; `InputActions` carries them out."""

from functools import partial
from typing import TYPE_CHECKING

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
from prompt_toolkit.search import SearchDirection, accept_search, start_search, stop_search

from sagent.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sagent.repl.input import InputActions
    from sagent.repl.terminal.picker import Picker
    from sagent.repl.terminal.screen import Screen

    Act = Callable[[Picker[object], KeyPressEvent], None]


def bind_keys(screen: "Screen", actions: "InputActions", chosen: "Sequence[str]" = ()) -> KeyBindings:
    """Bind all our keys; prompt_toolkit's emacs and vi keys work too. The person's own, in `chosen`, each "action=key",
    take precedence. Raises UsageError for an invalid key."""
    keys, buffer = KeyBindings(), screen.buffer
    picking = Condition(lambda: actions.questions.taking is not None)
    held = Condition(lambda: actions.questions.picker is not None and actions.questions.taking is None)
    typing = ~picking & ~is_searching
    focused = typing & has_focus(buffer)
    empty = Condition(lambda: not buffer.text)
    vi_typing = vi_insert_mode & ~empty

    place = 0, 0  # position in the history, and cursor, before a search

    def note_place(_: object) -> None:
        nonlocal place
        if not screen.searching:
            place = buffer.working_index, buffer.cursor_position

    screen.app.key_processor.before_key_press += note_place

    def leave_search() -> None:
        stop_search()
        buffer.working_index, buffer.cursor_position = place
        screen.redraw()

    def take_found() -> None:
        accept_search()
        buffer.cursor_position = len(buffer.text)

    def recall() -> None:
        if not actions.recall_queued():
            buffer.auto_up()

    table: tuple[tuple[str, Filter, Callable[[], None]], ...] = (
        ("escape enter", focused, lambda: buffer.insert_text("\n")),
        ("c-j", focused, lambda: buffer.insert_text("\n")),
        ("s-tab", focused & has_completions, buffer.complete_previous),
        ("s-tab", focused & ~has_completions, actions.next_mode),
        ("c-x c-e", focused, actions.edit),
        # replaces quoted insertion, which Ctrl-Q does too
        ("c-v", focused & ~vi_navigation_mode, actions.paste_image),
        ("c-x c-v", focused, actions.paste_image),
        ("up", focused & empty & ~has_completions, recall),
        ("down", focused & empty & ~has_completions & Condition(actions.can_choose_agent), actions.choose_agent),
        ("pageup", held, lambda: actions.questions.read_on(-1)),
        ("pagedown", held, lambda: actions.questions.read_on(1)),
        ("escape", typing & (has_completions | ~vi_typing), actions.escape),
        ("c-b", typing & Condition(actions.can_background), actions.background),
        ("c-c", Always(), actions.clear_or_quit),
        ("c-d", typing & empty, actions.leave),
        ("c-o", typing, actions.expand),
        ("c-l", Always(), actions.clear_screen),
        ("c-z", Always(), actions.suspend),
    )
    anytime = (actions.clear_screen, actions.suspend)  # eager, as are all keys of a question
    for names, condition, act in table:
        keys.add(*names.split(), filter=condition, eager=act in anytime)(_handler(act))
    _bind_input(keys, screen, actions, focused)
    _bind_picker(keys, actions, picking)
    # people press Ctrl-Q after a Ctrl-S meant to stop the terminal
    leaving = [(key, leave_search) for key in ("escape", "c-c", "c-q")]
    for names, act in (*leaving, ("enter", take_found)):
        keys.add(names, filter=is_searching & ~picking, eager=True)(_handler(act))
    known = _by_name(screen, actions, focused)
    for action, _, key in (one.partition("=") for one in chosen):
        command = partial(actions.command, action[1:])
        condition, act = (~is_searching & empty, command) if action.startswith("/") else known[action]
        try:
            keys.add(*key_names(key), filter=condition, eager=act in (*anytime, command))(_handler(act))
        except ValueError:
            raise UsageError(
                f'keys: {key!r} is not a key: use a form such as "ctrl-t", "alt-x", "shift-tab", "f5" or "ctrl-x e".'
            ) from None
    return keys


def _by_name(
    screen: "Screen", actions: "InputActions", focused: Filter
) -> "Mapping[str, tuple[Filter, Callable[[], None]]]":
    """Return the actions that can be bound to a key, by their names in the setting `keys`."""
    typing = focused | (~is_searching & Condition(lambda: actions.questions.taking is None))
    working = Condition(lambda: actions.busy)
    return {
        "send": (focused, lambda: actions.submit("now")),
        "newline": (focused, lambda: screen.buffer.insert_text("\n")),
        "queue": (focused & working, lambda: actions.submit("idle")),
        "edit": (focused, actions.edit),
        "paste-image": (focused, actions.paste_image),
        "search": (focused, lambda: start_search(direction=SearchDirection.BACKWARD)),
        "interrupt": (typing, actions.escape),
        "background": (typing & Condition(actions.can_background), actions.background),
        "expand": (typing, actions.expand),
        "mode": (focused, actions.next_mode),
        "clear": (Always(), actions.clear_or_quit),
        "clear-screen": (Always(), actions.clear_screen),
        "suspend": (Always(), actions.suspend),
        "quit": (typing, actions.leave),
    }


def key_names(text: str) -> list[str]:
    """Return a key as people write it ("ctrl-t", "alt-x", "ctrl-x e"), as prompt_toolkit names it."""
    found: list[str] = []
    for word in text.lower().split():
        key = word.replace("ctrl-", "c-").replace("shift-", "s-")
        found += ["escape", key.removeprefix("alt-")] if key.startswith("alt-") else [key]
    return found


def _handler(act: "Callable[[], None]") -> "Callable[[KeyPressEvent], None]":
    return lambda event: act()


def _bind_input(keys: KeyBindings, screen: "Screen", actions: "InputActions", focused: Filter) -> None:  # noqa: C901 -- a table of keys
    buffer = screen.buffer

    @keys.add("enter", filter=focused)
    def _(event: KeyPressEvent) -> None:
        if (state := buffer.complete_state) is not None and state.current_completion is not None:
            buffer.complete_state = None
            if not buffer.text.startswith("/") and len(state.completions) > 1:  # one of several completions was taken
                return
        if buffer.document.char_before_cursor == "\\" and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            actions.submit("now")

    waiting = ""  # text whose first completion is wanted

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
        nonlocal waiting
        waiting = ""
        if (state := buffer.complete_state) is not None and state.completions:
            buffer.complete_next()
        elif screen.line.completable(text := buffer.document.text_before_cursor):
            waiting = text  # they may be under way already, without a choice
            buffer.start_completion(select_first=True)
        elif actions.questions.seen:
            actions.questions.take_up()
        elif buffer.text.strip() and actions.busy:
            actions.submit("idle")

    @keys.add(Keys.BracketedPaste, filter=focused)
    def _(event: KeyPressEvent) -> None:
        actions.paste(event.data)


def _bind_picker(keys: KeyBindings, actions: "InputActions", picking: Condition) -> None:
    def on(*names: str) -> "Callable[[Act], None]":
        def register(act: "Act") -> None:
            def handle(event: KeyPressEvent) -> None:
                if (picker := actions.questions.taking) is not None:
                    act(picker, event)
                    get_app().invalidate()

            for name in names:
                keys.add(name, filter=picking, eager=True)(handle)

        return register

    on("up", "c-p", "s-tab")(lambda picker, event: actions.questions.move(-1))
    on("down", "c-n", "tab")(lambda picker, event: actions.questions.move(1))
    on("c-g", "c-c")(lambda picker, event: picker.take())
    on("c-d")(lambda picker, event: actions.leave())
    on("escape")(lambda picker, event: actions.questions.leave())

    on("enter", "c-j")(lambda picker, event: actions.questions.enter())
    on("pageup")(lambda picker, event: actions.questions.read_on(-1))
    on("pagedown")(lambda picker, event: actions.questions.read_on(1))
    on("c-o")(lambda picker, event: actions.expand())
    on("c-x")(lambda picker, event: actions.questions.act())
    on("c-u")(lambda picker, event: picker.rub(len(picker.query)) if picker.query else None)

    @on(Keys.BracketedPaste)
    def _(picker: "Picker[object]", event: KeyPressEvent) -> None:
        if picker.keys:
            actions.questions.release_keys()
            actions.paste(event.data)
        else:
            picker.type(" ".join(event.data.split()))

    @on("backspace")
    def _(picker: "Picker[object]", event: KeyPressEvent) -> None:
        if picker.keys:
            actions.questions.release_keys()
            event.current_buffer.delete_before_cursor()
        else:
            picker.rub()

    @on("<any>")
    def _(picker: "Picker[object]", event: KeyPressEvent) -> None:
        if not event.data.isprintable():
            actions.questions.drop()
        else:
            (actions.questions.type if picker.keys else picker.type)(event.data)
