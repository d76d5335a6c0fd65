"""`sagent replay`: replays a session from its log, or asks another model its prompts."""

import argparse
import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sagent.cli.flags import Parser, add_flag, add_setting, plugins_of
from sagent.cli.headless import Interrupter, exit_code
from sagent.cli.render import binary_safe, renderer_for, report
from sagent.cli.settings import load_settings
from sagent.cli.tables import show
from sagent.config.declared import ALIASES
from sagent.errors import UsageError
from sagent.lib.names import path_of
from sagent.plugins.audit.fetched import add_stores, elsewhere, reading

if TYPE_CHECKING:
    from sagent.agent import Agent
    from sagent.config import Settings
    from sagent.events import Event
    from sagent.plugin import Setting
    from sagent.plugins.lab.replay import Conditions, Replay, Replayed, Rerun

DESCRIPTION = """Run a session again from its log: the same loop, with recorded answers from the model and the tools.
Every request is rebuilt and compared with the sha256 of the one that was sent. Nothing is sent and no tool is run.
With --model, the session's prompts are given to another model instead, in a new session."""
EPILOG = """exit codes:
  without --model   0 identical   1 it differs, or does not verify   2 usage
  with --model      those of a run: sagent help all"""
LAST = "- Messages after an agent's last request were never sent, so no request's hash covers them."
FORMATS = ("text", "json")
_HELP = {
    "model": "give the session's prompts to this model, in a new session",
    "provider": "the model's provider, if its name does not imply it",
    "advisors": "an advisor for it; none for no advisor",
    "effort": "an effort other than the recorded one",
    "max_turns": "at most N model calls for each prompt",
    "permission_mode": "for live tools: plan, ask, edit (default) or full",
    "allow": "allow calls of live tools (repeatable)",
}
"""The meaning of these settings in a replay."""


def run_replay(argv: Sequence[str]) -> int:
    flags = vars(_parser().parse_args(argv))
    settings, live = settings_of(flags)
    from sagent.plugins.lab.recording import locate

    name = flags.get("session")
    with reading(lambda: locate(settings, name), name, elsewhere(flags)) as path:
        return _ask_again(path, settings, flags) if live else _from_log(path, settings, flags)


def _ask_again(path: Path, settings: "Settings", flags: Mapping[str, object]) -> int:
    from sagent.plugins.lab.recording import session_at

    if "agent" in flags:
        raise UsageError(
            "--agent does not go with --model, which gives the prompts of the root agent to another "
            "model. Leave out one of them."
        )
    renderer = renderer_for(settings, binary_safe(sys.stdout), binary_safe(sys.stderr))
    with session_at(path) as session:
        done, signal_number = asyncio.run(ask(session, settings, conditions_of(flags), renderer.on_event))
        renderer.on_result(done.result)
    report(*notes_of(done))
    return exit_code(done.result, signal_number)


def _from_log(path: Path, settings: "Settings", flags: Mapping[str, object]) -> int:
    if "keep" in flags or "live_tools" in flags:
        raise UsageError("--live-tools and --keep need --model, the model to give the prompts to.")
    from sagent.plugins.lab.replay import replay

    done = asyncio.run(replay(path, agent=str(flags.get("agent", "")), rows=settings.rows))
    show(_as_json(done), _lines(done), as_json=flags.get("output_format") == "json")
    return 0 if done.is_same else 1


def _parser() -> Parser:
    parser = Parser("replay", DESCRIPTION, epilog=EPILOG, argument_default=argparse.SUPPRESS)
    parser.add_argument(
        "session", nargs="?", metavar="SESSION | DIR | BUNDLE",
        help="a session's path or id, or the beginning of an id, or an exported bundle (default: the last session)",
    )  # fmt: skip
    parser.add_argument("--agent", metavar="PATH", help="only this agent: root, root/review (default: all of them)")
    parser.add_argument("--output-format", metavar="F", choices=FORMATS, help="text (default) or json")
    add_live_flags(parser)
    return parser


def add_live_flags(parser: Parser) -> None:
    group = parser.add_argument_group("with another model")
    for setting in _asked_again():
        add_flag(group, setting, _HELP.get(setting.name, setting.help))
    group.add_argument("--live-tools", action="store_true", help="run its tools, in a copy of the directory, rather "
                                                                 "than answer from the recording")  # fmt: skip
    group.add_argument("--keep", metavar="DIR", help="keep that copy in DIR")
    add_stores(parser)
    group.add_argument("--config", metavar="FILE", help="a TOML or YAML file to use in place of your user settings")
    add_setting(group, "cwd", "run as if started in this directory")


def _asked_again() -> "Sequence[Setting]":
    """Return the settings that may be chosen for prompts that are given to another model."""
    return plugins_of(sys.argv[1:]).passed_on("asked_again")


def settings_of(flags: Mapping[str, object]) -> "tuple[Settings, bool]":
    """Return the current settings, and True if prompts are to be asked again."""
    names = [*(setting.keyword for setting in _asked_again()), *ALIASES]
    given = {name: flags[name] for name in (*names, "config", "cwd") if name in flags}
    live = any(name in flags for name in ("model", "executor", "provider", "base_url"))
    if not live and (strays := [name for name in names if name in flags]):
        raise UsageError(f"--{strays[0].replace('_', '-')} needs --model, the model to give the prompts to.")
    output = "json" if flags.get("output_format") == "json" else "text"
    return load_settings({**given, "output_format": output}), live


def conditions_of(flags: Mapping[str, object], check: str = "") -> "Conditions":
    from sagent.plugins.lab.replay import Conditions

    keep = flags.get("keep")
    if keep is not None and not flags.get("live_tools"):
        raise UsageError("--keep needs --live-tools, which makes the copy to keep.")
    return Conditions(
        live=flags.get("live_tools") is True,
        keep=None if keep is None else path_of(str(keep)).absolute(),
        check=check,
    )


async def ask(
    session: Path, settings: "Settings", conditions: "Conditions", listener: Callable[["Event"], None]
) -> "tuple[Rerun, int | None]":
    """Ask again, and stop in order on a signal: end the run first, then remove its files."""
    from sagent.plugins.lab.replay import rerun

    interrupter = Interrupter()

    def begun(agent: "Agent") -> None:
        interrupter.agent = agent

    try:
        done = await rerun(session, settings, conditions, listener=listener, begun=begun)
    except asyncio.CancelledError:
        if interrupter.received is None:
            raise
        raise KeyboardInterrupt from None
    except BrokenPipeError:
        raise
    except OSError as error:
        what = f"{error.filename or settings.state_dir}: {error.strerror or error}"
        raise UsageError(f"{what}. The prompts could not be given to the model.") from error
    return done, interrupter.received


def notes_of(done: "Rerun") -> Iterator[str]:
    """Yield notes on a session that was asked again, in addition to its result."""
    yield f"session {done.result.session_id}, asked again from {done.source}"
    if done.how:
        yield f"tools ran in {done.how}"
    elif done.answered or done.missing:
        yield f"{done.answered} calls were answered from the recording, {done.missing} are not in it"
    yield from done.notes


# -- from the log ------------------------------------------------------------------------------------------------------


def _lines(done: "Replay") -> Iterator[str]:
    yield f"session {done.session}  {done.path}"
    for problem in done.problems:
        yield f"! {problem}"
    yield from (f"- {each}" for each in done.torn)
    for agent in done.agents:
        yield from _show_agent(agent, done.recorded_by)
    if done.problems:
        yield "NOT REPLAYED: the session does not verify, so a replay would prove nothing"
    elif not done.is_same:
        yield "DIVERGED: see above"
    elif done.is_exact:
        yield LAST
        yield "OK: every request and every message is the same as recorded"
    else:
        yield LAST
        yield "OK as far as could be compared; what could not be compared is listed above"


def _show_agent(replayed: "Replayed", recorded_by: str) -> Iterator[str]:
    mark = "✗" if replayed.divergence else "✓"
    counts = f"{replayed.turns} turns: {replayed.requests} of {replayed.recorded} requests byte for byte"
    side = replayed.side_calls
    aside = f", {side.same} of {side.recorded} side calls" if side.recorded else ""
    yield f"{mark} {replayed.agent}  {counts}{aside}, {replayed.messages} messages, {replayed.results} results"
    for what, count in replayed.unchecked.items():
        yield f"  ? {count}: {what}"
    for what, count in replayed.taken.items():
        yield f"  - {count}: {what}"
    if (found := replayed.divergence) is None:
        return
    from sagent.version import __version__

    yield f"  turn {found.turn}, entry {found.entry}: {found.what}"
    yield from (f"    {line}" for line in found.diff or (f"recorded: {found.expected}", f"replayed: {found.came}"))
    if found.hint:
        yield f"    {found.hint}"
    if recorded_by and recorded_by != __version__:
        yield f"    It was recorded by sagent {recorded_by}, and this is {__version__}."


def _as_json(done: "Replay") -> dict[str, object]:
    from sagent.version import __version__

    return {
        "session": done.session,
        "path": done.path,
        "same": done.is_same,
        "exact": done.is_exact,
        "recorded_by": done.recorded_by,
        "replayed_by": __version__,
        "problems": done.problems,
        "torn": done.torn,
        "agents": [_agent_json(agent) for agent in done.agents],
    }


def _agent_json(replayed: "Replayed") -> dict[str, object]:
    found = replayed.divergence
    names = ("turn", "entry", "what", "expected", "came", "diff", "hint")
    return {
        "agent": replayed.agent,
        "turns": replayed.turns,
        "requests": replayed.recorded,
        "requests_same": replayed.requests,
        "side_requests": replayed.side_calls.recorded,
        "side_requests_same": replayed.side_calls.same,
        "messages": replayed.messages,
        "results": replayed.results,
        "unchecked": replayed.unchecked,
        "taken_from_log": replayed.taken,
        "divergence": found and {name: getattr(found, name) for name in names},
    }
