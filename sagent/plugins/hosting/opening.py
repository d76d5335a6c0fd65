"""Sessions for clients of a server: opened by the server's flags, within a client's permitted choices."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

from sagent.cli.settings import load_settings, with_chosen_model
from sagent.errors import UsageError
from sagent.plugin import SecretFolder

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from sagent.agent import Asker
    from sagent.config import Settings
    from sagent.plugins.hosting.live import ClientOptions, Opening, OpenSession
    from sagent.repl.opening import Listener
    from sagent.tools.ask import Answerer


def opening_of(
    flags: Mapping[str, object],
    user: str = "",
    prepare: "Callable[[Settings], Settings]" = lambda settings: settings,
    *,
    users: Iterable[str] = (),
) -> "Opening":
    """Return a function that opens sessions with a person to ask, for clients. Those of a named `user` are separate,
    also from those of `users`; `prepare` may finally change their settings."""

    def opening(
        options: "ClientOptions", listener: "Listener", ask: "Asker", answer: "Answerer"
    ) -> "AbstractAsyncContextManager[OpenSession]":
        from sagent.cli.interactive import open_session

        settings = settings_for(flags, options)
        private = (settings.state_dir,) if user else ()
        state = state_of(settings, user)
        secret = [*settings.plugins.named(SecretFolder)]
        walls = _walls(settings.state_dir, user, users, secret) if user else ()
        deny = [*walls, *_sealed(*(state / name for name in secret))]
        settings = prepare(replace(settings, state_dir=state, deny=(*settings.deny, *deny)))
        return open_session(settings, listener, ask, answer, private=private)

    return opening


def state_of(settings: "Settings", user: str) -> "Path":
    """Return the state directory of a user of a server, "" for the server's owner."""
    return settings.state_dir / "users" / user if user else settings.state_dir


def _walls(state: "Path", user: str, users: Iterable[str], secret: Iterable[str]) -> Sequence[str]:
    """Return rules that keep a user's agents, in every mode, from other users' sessions and the servers' tokens."""
    others = {*users, *(each.name for each in state.glob("users/*"))} - {user}
    return _sealed(*(state / name for name in ("sessions", *secret, *(f"users/{each}" for each in sorted(others)))))


def _sealed(*places: "Path") -> Sequence[str]:
    """Return rules that forbid reading and writing anything below places."""
    from sagent.policy.rules import escape

    return [f"{tool}({escape(str(place))})" for place in places for tool in ("Read", "Edit")]


def settings_for(flags: Mapping[str, object], options: "ClientOptions") -> "Settings":
    """Return the settings of a session that a client wants, never above the flags' budget. Raises UsageError."""
    given = dict(flags)
    if options.session is not None:
        given |= {"resume": options.session}
        given["cwd"] = _directory_of(load_settings(flags), options.session)
    chosen = {name: getattr(options, name) for name in ("cwd", "model", "permission_mode", "effort")}
    settings = load_settings(given | {name: value for name, value in chosen.items() if value is not None})
    with_chosen_model(settings)
    if options.max_budget_usd is not None:
        cap = Decimal(str(options.max_budget_usd))
        if not cap.is_finite() or cap <= 0:
            raise UsageError(f"max_budget_usd is {options.max_budget_usd}: give a number of USD above 0.")
        own = settings.max_budget_usd
        settings = replace(settings, max_budget_usd=cap if own is None else min(cap, own))
    return session_settings(settings)


def session_settings(settings: "Settings") -> "Settings":
    """Return the settings of a session that a server opens. Advisors in the server's flags apply to new sessions: a
    resumed one keeps its advisors, and muted ones stay muted."""
    from sagent.session.store import is_session

    origin = settings.origins.get("advisors", "")
    if settings.session is None or not origin.startswith("--") or not is_session(settings.session):
        return settings
    return replace(settings, origins={**settings.origins, "advisors": f"the server's {origin}"})


def _directory_of(settings: "Settings", session: str) -> str:
    """Return the directory of a session. Raises SessionNotFound and SessionCorrupt."""
    from sagent.session.folds import origin
    from sagent.session.log import read_log
    from sagent.session.store import check_log, find

    check_log(path := find(settings.state_dir, session, settings.cwd))
    return origin(read_log(path / "root.jsonl")).cwd
