"""Runs a command line: chooses the command, and turns errors into exit codes."""

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

from sagent.errors import SagentError, UsageError

if TYPE_CHECKING:
    from sagent.config.plugins import Installed
    from sagent.plugin import Runner

Run: TypeAlias = Callable[[Mapping[str, object], list[str] | None], int]


def run(argv: list[str]) -> int:
    """Run a command line. Never raises for errors of a user or a provider."""
    try:
        return _flushed(_blaming(argv))
    except SagentError as error:
        from sagent.cli.reported import report_as_json
        from sagent.lib.text import in_shell, printable

        _flushed(0, lambda failed=error: report_as_json(argv, failed))
        sys.stderr.write(printable(f"sagent: {in_shell(str(error))}\n"))
        return 2 if isinstance(error, UsageError) else 1
    except SystemExit as ended:  # argparse, after --help; or a plugin
        if isinstance(ended.code, str):
            sys.stderr.write(f"{ended.code}\n")
        return _flushed(ended.code if isinstance(ended.code, int) else int(ended.code is not None))
    except KeyboardInterrupt as stopped:
        from sagent.lib.text import printable

        if sys.stderr.isatty():
            sys.stderr.write("\n")
        for note in getattr(stopped, "__notes__", ()):
            sys.stderr.write(printable(f"sagent: {note}\n"))
        return 128 + signal.SIGINT
    except OSError as error:
        return output_failed(error)
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("sagent"):
            raise
        program = f"{sys.executable}, which runs sagent, has no package {error.name}"
        sys.stderr.write(f"sagent: {program}. Install what it needs: `make demo` in a checkout, or `pipx install .`\n")
        return 1


def _blaming(argv: list[str]) -> int:
    """Run a command line. Raises UsageError with the plugin's name for errors of a plugin's code."""
    try:
        return _dispatch(argv)
    except BaseException as error:
        from sagent.config.plugins import blame

        if isinstance(error, SagentError | SystemExit) or not (said := blame(error)):
            raise
        if isinstance(error, KeyboardInterrupt):  # it may have been raised there
            error.add_note(said)
            raise
        raise UsageError(said) from error


def _flushed(code: int, write: Callable[[], object] = bool) -> int:
    try:
        write()
        sys.stdout.flush()
    except OSError as error:
        return output_failed(error)
    return code


def output_failed(error: OSError) -> int:
    """Report a file error; or if our output is closed or its disk full, redirect buffered output to nowhere, because
    Python would complain."""
    if error.filename is None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return 128 + signal.SIGPIPE
    from sagent.lib.text import is_limit, system_reason

    cause = "a file could not be opened" if is_limit(error) else "the output could not be written"
    where = error.filename or cause
    sys.stderr.write(f"sagent: {where}: {system_reason(error)}\n")
    return 1 if error.filename is None else 2


def _dispatch(argv: list[str]) -> int:
    if not argv and _on_terminal():
        from sagent.cli.interactive import run_interactive

        return run_interactive({})  # without even importing the flags, for a faster prompt
    from sagent.cli.flags import meant_command, parse_run, plugins_of, run_parser
    from sagent.plugin import Command

    plugins = plugins_of(argv)
    commands = plugins.named(Command)
    if argv and argv[0] not in commands:
        named = [command.name for command in commands.values() if not {*command.flags}.isdisjoint(argv)]
        argv = [*named[:1], *argv]
    if argv[:1] == ["help"] and (len(argv) == 1 or argv[1] in commands):
        argv = [*argv[1:], "--help"]
    if argv == ["help", "all"]:
        run_parser(plugins).print_help()
        return 0
    if argv and argv[0] in commands:
        _neutralize()
        return run_command(plugins, argv[0], argv[1:])
    if argv and argv[0].islower() and " " not in argv[0]:  # else it would be sent as a prompt
        check_former(plugins, argv[0])
    flags = parse_run(plugins, argv)
    words: list[str] = flags.pop("prompt", [])
    images: list[str] = flags.pop("image", [])
    runner = _runner(plugins, flags)
    printed = flags.pop("print", False) or "input_format" in flags or "output_schema" in flags
    printed = printed or flags.get("output_format", "text") != "text"
    if not words and not printed and not images and _on_terminal():
        from sagent.cli.interactive import run_interactive

        return run_interactive(flags) if runner is None else runner(flags, None)
    _neutralize()
    if not printed and "--" not in argv and (meant := meant_command(words, commands)):
        _ask_whether_prompt(" ".join(words), meant)
    if runner := runner or _runner_of_environment(plugins):
        return runner({**flags, "image": images} if images else flags, words)
    from sagent.cli.headless import run_headless
    from sagent.cli.settings import load_or_report

    return run_headless(load_or_report(flags), words, images)


def run_command(plugins: "Installed", name: str, words: "Sequence[str]") -> int:
    """Run a subcommand; only its module is imported. Raises as `carry_out`."""
    from sagent.plugin import Command

    if not plugins.named(Command)[name].run:
        name, words = _operation_of(plugins, name, words)
        if not name:
            return 0
    return carry_out(plugins.owner(Command, name), plugins.named(Command)[name].run, f"The command {name}", words)


def _operation_of(plugins: "Installed", family: str, words: "Sequence[str]") -> "tuple[str, Sequence[str]]":
    """Return the command of a family's operation, and the words after it; "" after writing its help. Raises UsageError
    for an unknown one."""
    from sagent.cli.flags import examples_of, operations

    known = operations(plugins, family)
    if words and words[0] in known:
        return words[0], words[1:]
    if not words or words[0] in ("-h", "--help"):
        rows = "\n".join(f"  {name:15} {each.help}" for name, each in known.items())
        end = examples_of(plugins, f"sagent {family}")
        sys.stdout.write(f"usage: sagent {family} OPERATION ...\n\n{rows}\n{end}")
        return "", ()
    raise UsageError(f"`sagent {family}` takes one of {', '.join(known)}. See sagent {family} --help.")


def carry_out(owner: str, function: str, action: str, *arguments: object) -> int:
    """Call a plugin's function that returns an exit code. Raises UsageError if a plugin other than the core fails."""
    from sagent.config.plugins import named_errors
    from sagent.plugin import resolve

    with named_errors(action, owner, SystemExit):
        run = cast("Callable[..., object]", resolve(function))
    with named_errors(action, owner):
        if not isinstance(code := run(*arguments), int):
            raise TypeError(f"it returned {type(code).__name__} where an exit code is needed")
        return code


def check_former(plugins: "Installed", command: str) -> None:
    """Raise UsageError for a command of a missing plugin."""
    if owner := plugins.former_owner(command):
        raise UsageError(f"`{command}` is a command of the plugin {owner}, which is not loaded.")


def _runner(plugins: "Installed", flags: dict[str, object]) -> "Run | None":
    """Return the function that runs this in place of the core, if flags of its plugin were given; they are removed from
    `flags`. Raises UsageError for flags of two plugins."""
    from sagent.plugin import Flag, Runner

    found: dict[str, dict[str, object]] = {}
    for owner, flag in plugins.owned(Flag):
        if not flag.of and flag.keyword in flags:
            found.setdefault(owner, {})[flag.keyword] = flags.pop(flag.keyword)
    every = {name: value for options in found.values() for name, value in options.items()}
    for owner, runner in plugins.owned(Runner):
        if owner in found and every.keys() <= {*found[owner], *runner.takes}:
            return _run_of(owner, runner, every)
    if len(found) > 1:
        one, other, *_ = (next(iter(each)).replace("_", "-") for each in found.values())
        raise UsageError(f"--{one} and --{other} cannot be combined: each carries the run out in its own way.")
    return None


def _runner_of_environment(plugins: "Installed") -> "Run | None":
    """Return the first that a variable asks for."""
    from sagent.plugin import Runner

    asked = ((owner, each) for owner, each in plugins.owned(Runner) if any(map(os.environ.get, each.variables)))
    return next((_run_of(owner, runner, {}) for owner, runner in asked), None)


def _run_of(owner: str, runner: "Runner", options: "Mapping[str, object]") -> "Run":
    return lambda settings, words: carry_out(owner, runner.run, "The runner", options, settings, words)


def _ask_whether_prompt(prompt: str, guess: str) -> None:
    """Ask whether to send a mistyped command as a prompt. Raises UsageError unless a person says yes."""
    if sys.stdin.isatty() and sys.stderr.isatty():
        sys.stderr.write(
            f"`{prompt}` is not a command. Did you mean {guess}?\nSend it to the model as a prompt? [y/N] "
        )
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
        raise UsageError("Nothing was sent.")
    raise UsageError(f"`{prompt}` is not a command. Did you mean {guess}? To send it as a prompt: sagent -- {prompt}")


def _neutralize() -> None:
    """Keep all further output from driving a terminal; what goes elsewhere is left as it is."""
    if sys.stdout.isatty() or sys.stderr.isatty():
        from sagent.lib.terminal import neutralized

        sys.stdout, sys.stderr = neutralized(sys.stdout), neutralized(sys.stderr)


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()
