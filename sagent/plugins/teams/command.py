"""`sagent team`: roles that work on one task and pass on their findings."""

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from sagent.cli.flags import Parser, add_flags
from sagent.cli.headless import EXIT_DONE, EXIT_FAILED, Interrupter, exit_code, read_prompt, reporting
from sagent.cli.render import (
    JsonRenderer,
    Renderer,
    StreamRenderer,
    Transcript,
    WaitingLine,
    binary_safe,
    report,
    warn,
    write_end,
)
from sagent.cli.settings import load_or_report
from sagent.cli.tables import write
from sagent.errors import UsageError
from sagent.events import Event, Failure, Finished
from sagent.lib.encoding import text_in
from sagent.lib.json import json_dump
from sagent.lib.money import in_words, number
from sagent.lib.names import path_of
from sagent.lib.regular import read_given
from sagent.lib.text import Table, count, printable
from sagent.messages import Text
from sagent.plugins.teams.flag import read_flag
from sagent.session.entries import show_given, show_said, show_usage
from sagent.transcript.event_json import encode_result

if TYPE_CHECKING:
    from sagent.config import Settings
    from sagent.plugins.teams.files import TeamFile
    from sagent.plugins.teams.handoffs import RoleReport
    from sagent.plugins.teams.rounds import HandOff
    from sagent.plugins.teams.team import Team, TeamResult

USAGE = """sagent team run (--preset NAME | FILE.toml) (--task FILE|- | "TASK") [flags]
       sagent team [list]
       sagent team show NAME"""


def run_team(argv: Sequence[str]) -> int:
    operations = {"run": _run, "list": _list, "show": _show}
    argv = argv or ["list"]
    if argv[0] in operations:
        return operations[argv[0]](argv[1:])
    parser = Parser("team", "Have a team of roles work on one task, each handing its results to the next.", usage=USAGE)
    parser.add_argument(
        "operation",
        choices=tuple(operations),
        help="run a team (sagent team run --help), list the teams that come with sagent, or show one as TOML",
    )
    parser.parse_args(argv[:1])
    return 0


def _run_parser() -> Parser:
    parser = Parser(
        "team run",
        usage='sagent team run (--preset NAME | FILE.toml) (--task FILE|- | "TASK") [flags]',
        description="Have a team carry out a task. Its roles are agents below one root, with one budget; the root's "
        "log has every hand-off. It accepts every flag of sagent; --model is for roles that name none.",
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument(
        "words", nargs="*", metavar="FILE.toml | TASK", help="the team's file, unless --preset is given; then the "
                                                             "task, in quotes; piped input is attached as context"
    )  # fmt: skip
    group = parser.add_argument_group("team")
    group.add_argument("--preset", metavar="NAME", help="a team that comes with sagent: see sagent team list")
    group.add_argument("--task", metavar="FILE", help="read the task from a file; - is standard input")
    group.add_argument("--visible-handoffs", metavar="N", help="show each role the last N hand-offs (default 4)")
    group.add_argument("--handoff-tokens", metavar="N", help="put at most N tokens of each hand-off in later prompts")
    group.add_argument("--handoff-bytes", metavar="N", help="put at most N bytes of each hand-off in later prompts")
    group.add_argument("--output", metavar="DIR", help="write final.md and report.md there")
    add_flags(parser)
    return parser


def _run(argv: Sequence[str]) -> int:
    flags = vars(_run_parser().parse_intermixed_args(argv))  # FILE.toml and the task may be separated by flags
    words: list[str] = flags.pop("words", [])
    preset, task = flags.pop("preset", None), flags.pop("task", None)
    visible, output = flags.pop("visible_handoffs", None), flags.pop("output", None)
    bounds = {name: flags.pop(f"handoff_{name}", None) for name in ("tokens", "bytes")}
    settings = load_or_report(flags)
    out, err = binary_safe(sys.stdout), binary_safe(sys.stderr)
    # for showing the events, or a failure before a result
    renderer = StreamRenderer(out) if settings.output_format == "stream-json" else JsonRenderer(out, err)
    with reporting(settings, renderer):
        if settings.input_format != "text":
            raise UsageError("--input-format stream-json is for conversations; a team has one task.")
        file = _bounded(_team_file(preset, words, visible), bounds)
        prompt = _task(task, words, settings)
        shown = _Output(settings, file, output, renderer, out, err)
        return asyncio.run(_carry_out(settings, file, prompt, shown))


def _team_file(preset: str | None, words: list[str], visible: str | None) -> "TeamFile":
    """Return the named team. Its file is removed from the words. Raises UsageError."""
    from sagent.config.values import whole
    from sagent.plugins.teams.files import preset_names, read_preset, read_team

    if preset is not None:
        if words and words[0].endswith(".toml"):
            raise UsageError(f"--preset {preset} and {words[0]} are two teams: give only one.")
        file = read_preset(preset)
    elif words:
        name = words.pop(0)
        if not Path(name).is_file() and name in preset_names():
            raise UsageError(f"{name} is a preset: give --preset {name}.")
        file = read_team(Path(name))
    else:
        raise UsageError(f"Which team? Give --preset {'|'.join(preset_names())}, or a file: {USAGE.splitlines()[0]}")
    number = read_flag("--visible-handoffs", visible, whole(0))
    return file if number is None else replace(file, visible_handoffs=number)


def _bounded(file: "TeamFile", bounds: Mapping[str, str | None]) -> "TeamFile":
    """Return the team with other budgets for hand-offs. Raises UsageError."""
    from sagent.config.values import whole

    given = {name: read_flag(f"--handoff-{name}", value, whole(1)) for name, value in bounds.items()}
    if all(value is None for value in given.values()):
        return file
    own = {name: getattr(file.handoff, name) if value is None else value for name, value in given.items()}
    return replace(file, handoff=replace(file.handoff, **own))


def _task(task: str | None, words: list[str], settings: "Settings") -> str:
    """Return the task; "" to continue an earlier round. Raises UsageError."""
    if len(words) > 1:
        raise UsageError(f'Quote the task: "{" ".join(words)}".')
    if task is not None and words:
        raise UsageError(f"--task {task} and {words[0]!r} are two tasks: give only one.")
    if task is None and not words and (settings.continue_session or settings.session or settings.fork):
        return ""
    if task is None or task == "-":
        prompt = read_prompt(words, sys.stdin, sys.stderr, "sagent team run --preset code_review")
        piped = "".join(part.text for part in prompt.parts if isinstance(part, Text))
        if prompt.parts and not piped:
            raise UsageError("A team's task must be text: name an image or a PDF in the task, for the team to read.")
        return prompt.text + piped
    try:
        text = text_in(read_given(path_of(task)))
    except OSError as error:
        raise UsageError(
            f"--task {task}: cannot be read: {error.strerror or error}. To give the task in words, put it in "
            "quotes, without --task."
        ) from error
    if text is None:
        raise UsageError(f"--task {task}: not text.")
    if not text.strip():
        raise UsageError(f"--task {task}: the file is empty.")
    return text


async def _carry_out(settings: "Settings", file: "TeamFile", task: str, output: "_Output") -> int:
    interrupter = Interrupter(output.renderer)
    result = await interrupter.outcome(_work(settings, file, task, output, interrupter))
    if result is None:
        early, code = interrupter.result()
        if settings.output_format != "text":
            output.renderer.on_result(early)
        elif early.error is not None:
            report(early.error.message)
        return code
    written = output.on_result(result)
    return exit_code(result, interrupter.received) or (EXIT_DONE if written else EXIT_FAILED)


async def _work(
    settings: "Settings", file: "TeamFile", task: str, output: "_Output", interrupter: Interrupter
) -> "TeamResult":
    """Run the team and return its result. After an interruption the result is partial."""
    from sagent.plugins.teams.opening import open_team

    async with open_team(settings, file, output.on_event, on_waiting=output.on_waiting) as team:
        output.check(team)
        team.watch(output.on_role)
        task = task or team.unfinished or ""
        if not task:
            raise UsageError("This session has no unfinished team task: give one, with --task or in quotes.")
        try:
            result = await team.run(task)
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is None or not interrupter.is_stopped:
                raise
            current.uncancel()
            result = team.so_far(Failure("interrupted", "the team was interrupted"))
        output.over = True
        return result


class _Output:
    """Shows a team's work: progress on stderr, the answer on stdout, the report on request."""

    def __init__(
        self,
        settings: "Settings",
        file: "TeamFile",
        directory: str | None,
        renderer: Renderer,
        out: TextIO,
        err: TextIO,
    ) -> None:
        self._settings, self._file, self.renderer, self._out, self._err = settings, file, renderer, out, err
        self._directory = None if directory is None else path_of(directory).absolute()
        self._quiet = settings.log_level == "error" or settings.output_format == "stream-json"
        talk = settings.log_level in ("info", "debug") and settings.output_format != "stream-json"
        self._transcript = Transcript(err, text=False) if talk else None
        self._waiting = WaitingLine(err)
        self.over = False  # agents that end when the session is closed are not reported after the result

    def check(self, team: "Team") -> None:
        """Make the directory for the report, before any money is spent. Raises UsageError, also for a directory in the
        session: a verifier knows every file there."""
        if self._directory is None:
            return
        if team.session_path and self._directory.is_relative_to(team.session_path):
            raise UsageError(f"--output {self._directory} is inside the session's directory: choose another one.")
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--output {self._directory}: {error.strerror or error}.") from error

    def on_waiting(self, agent: str, waits_for: str) -> None:
        if self._settings.output_format == "text":
            self._waiting.tell(agent, waits_for, shown=not self._quiet)

    def on_event(self, event: Event) -> None:
        if self.over:
            return
        self._waiting.hide()
        if isinstance(self.renderer, StreamRenderer):
            self.renderer.on_event(event)
        elif self._transcript is not None and not isinstance(event, Finished):
            self._transcript.on_event(event)
        else:
            warn(event, self._err)

    def on_role(self, role: "RoleReport") -> None:
        self._waiting.hide()
        if not self._quiet:
            self._err.write(f"{printable(progress(role))}\n")
            self._err.flush()

    def on_result(self, result: "TeamResult") -> bool:
        """Write the answer, the report, and errors. Returns whether the report was written as requested."""
        from sagent.plugins.teams.opening import report, write_report

        self._waiting.hide()
        text, written = report(self._file, result), True
        if self._directory is not None:
            try:
                write_report(self._directory, result, text)
            except OSError as error:
                where = error.filename or self._directory
                self._err.write(f"sagent: the report could not be written: {where}: {error.strerror or error}\n")
                written = False
        if self._settings.output_format != "text":
            shown = {**encode_result(result), **show_team(self._file, result), "report": text}
            if isinstance(self.renderer, StreamRenderer):
                self.renderer.flush()
                shown = {"type": "result", "agent": "root", **shown}
            self._out.write(json_dump(shown) + "\n")
            self._out.flush()
            return written
        if result.content:
            self._out.write(result.content + "\n")
        self._out.flush()
        write_end(result, self._err, denied=self._transcript is None, quiet=self._quiet)
        if result.error is not None and result.session_path:
            self._err.write(f"sagent: to continue, run the same command with --session {result.session_path}\n")
            self._err.flush()
        return written


def progress(role: "RoleReport") -> str:
    """Return a role in one line: "critic (anthropic/claude-sonnet-4-6): done, 3 turns, 2100 in, 340 out, 0.011400
    USD"."""
    who = f"{role.name} ({role.model})" if role.model else role.name
    used = f"{count(role.turns, 'turn')}, {role.usage.total_input} in, {role.usage.output} out, {in_words(role.usd)}"
    states = {
        "at work": "begins",
        "kept": f"had finished, not run again; {used}",
        "failed": f"failed ({role.error.kind if role.error else 'error'}), {used}",
    }
    return f"{who}: {states.get(role.state, f'{role.state}, {used}')}"


def show_team(file: "TeamFile", result: "TeamResult") -> Mapping[str, object]:
    """Return the JSON members of a team's result, in addition to those of every result."""
    return {
        "team": file.name,
        "mode": file.mode,
        "visible_handoffs": file.visible_handoffs,
        "handoff_tokens": file.handoff.tokens,
        "handoff_bytes": file.handoff.bytes,
        "task": result.task,
        "roles": [_show_role(role) for role in result.roles],
        "handoffs": [_show_handoff(handoff) for handoff in result.handoffs],
        "cost_by_role": {role.name: number(role.usd) for role in result.roles},
        "handoffs_saved": {"tokens": result.handoffs_saved.tokens, "usd": number(result.handoffs_saved.usd)},
    }


def _show_role(role: "RoleReport") -> Mapping[str, object]:
    error = role.error
    return {
        "name": role.name,
        "state": role.state,
        "agent": role.agent,
        "model": role.model,
        "num_turns": role.turns,
        "usage": show_usage(role.usage),
        "usd": number(role.usd),
        "text": role.text,
        "error": error and {"kind": error.kind, "message": error.message},
    }


def _show_handoff(handoff: "HandOff") -> Mapping[str, object]:
    given = None if handoff.given is None else show_given(handoff.given)
    who = {"from": handoff.giver, "to": handoff.taker}
    return {**who, "said": show_said(handoff.said), "given": given, "entry": handoff.entry, "at": handoff.at}


def _list(argv: Sequence[str]) -> int:
    parser = Parser("team list", "List the teams that come with sagent.")
    parser.parse_args(argv)
    from sagent.plugins.teams.files import preset_names, read_preset

    teams = ((name, read_preset(name)) for name in preset_names())
    rows = ((name, team.mode, ", ".join(role.name for role in team.roles), team.description) for name, team in teams)
    write(sys.stdout, [Table(tuple(rows), ("preset", "mode", "roles", "what it does"))])
    return 0


def _show(argv: Sequence[str]) -> int:
    parser = Parser(
        "team show", "Print a preset as TOML, with its prompts, to change it: sagent team show code_review > mine.toml"
    )
    parser.add_argument("name")
    from sagent.plugins.teams.files import preset_text

    sys.stdout.write(preset_text(parser.parse_args(argv).name))
    return 0
