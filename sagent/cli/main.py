"""From words to a command, from errors to an exit code."""

import errno
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from sagent.errors import SagentError, UsageError

if TYPE_CHECKING:
    from sagent.config.plugins import Installed


def run(argv: list[str]) -> int:
    """Carry out a command line. Never raises for what a user or a provider did."""
    try:
        return _flushed(_dispatch(argv))
    except SagentError as error:
        from sagent.cli.reported import report_as_json
        from sagent.lib.text import in_shell, printable

        if report_as_json(argv, error):
            _flushed(0)
        sys.stderr.write(printable(f"sagent: {in_shell(str(error))}\n"))
        return 2 if isinstance(error, UsageError) else 1
    except SystemExit as ended:  # argparse, after --help
        return _flushed(ended.code if isinstance(ended.code, int) else 0)
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            sys.stderr.write("\n")
        return 128 + signal.SIGINT
    except OSError as error:
        return _output_failed(error)
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("sagent"):
            raise
        program = f"{sys.executable}, which runs sagent here, has no package {error.name}"
        sys.stderr.write(f"sagent: {program}. Install what it needs: `make demo` in a checkout, or `pipx install .`\n")
        return 1


def _flushed(code: int) -> int:
    try:
        sys.stdout.flush()
    except OSError as error:
        return _output_failed(error)
    return code


def _output_failed(error: OSError) -> int:
    """A file could not be used; or nobody reads our output any more, or it has no room: then what is buffered goes
    nowhere, or Python would complain."""
    if error.filename is None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return 128 + signal.SIGPIPE
    where = error.filename or "the output could not be written"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        where = error.filename or "a file could not be opened"
        error.strerror = f"{error.strerror}. Raise the limit of open files, as with ulimit -n 1024"
    sys.stderr.write(f"sagent: {where}: {error.strerror or error}\n")
    return 1 if error.filename is None else 2


def _dispatch(argv: list[str]) -> int:
    if not argv and _on_terminal():
        return _talk({})  # not even the flags are looked at, nor imported: the prompt is there sooner
    from sagent.cli.flags import meant_command, plugins_of, run_parser

    plugins = plugins_of(argv)
    commands = plugins.commands
    if argv and argv[0] not in commands:
        named = [each.name for each in commands.values() if not {*each.flags}.isdisjoint(argv)]
        argv = [*named[:1], *argv]
    if argv and argv[0] in commands:
        _neutralize()
        return run_command(plugins, argv[0], argv[1:])
    flags = vars(run_parser(plugins).parse_args(argv))
    words: list[str] = flags.pop("prompt", [])
    bus = {name: flags.pop(name) for name in ("bus", "label", "files", "detach") if name in flags}
    printed = flags.pop("print", False) or "input_format" in flags or "output_schema" in flags
    printed = printed or flags.get("output_format", "text") != "text"
    if not words and not printed and _on_terminal():
        if bus:
            raise UsageError(
                "With --bus, give a prompt; to talk to a session that runs on the bus, see sagent attach --help."
            )
        return _talk(flags)
    _neutralize()
    if not printed and "--" not in argv and (meant := meant_command(words, commands)):
        _ask_whether_prompt(" ".join(words), meant)
    if bus or os.environ.get("SAGENT_BUS"):
        from sagent.cli.remote import run_remote

        return run_remote(bus, flags, words)
    from sagent.cli.headless import run_headless
    from sagent.cli.settings import load_or_report

    return run_headless(load_or_report(flags), words)


def run_command(plugins: "Installed", name: str, words: "Sequence[str]") -> int:
    """Run a subcommand; its module is imported by its name, the others cost nothing. Raises UsageError where a plugin's
    cannot be imported."""
    from sagent.plugin import resolve

    owner = plugins.owner(name)
    try:
        run = cast("Callable[[Sequence[str]], int]", resolve(plugins.commands[name].run))
    except (Exception, SystemExit) as error:
        if owner is plugins.plugins[0]:
            raise
        why = f"{type(error).__name__}: {error}"
        raise UsageError(f"The command {name} of the plugin {owner.name} cannot be loaded: {why}.") from error
    return run(words)


def _ask_whether_prompt(prompt: str, meant: str) -> None:
    """Nothing is billed for a command that was misspelled. Raises UsageError unless a person wants the words sent."""
    if sys.stdin.isatty() and sys.stderr.isatty():
        sys.stderr.write(
            f"`{prompt}` is not a command. Did you mean {meant}?\nSend it to the model as a prompt? [y/N] "
        )
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
        raise UsageError("Nothing was sent.")
    raise UsageError(f"`{prompt}` is not a command. Did you mean {meant}? To send it as a prompt: sagent -- {prompt}")


def _talk(flags: Mapping[str, object]) -> int:
    from sagent.cli.interactive import run_interactive

    return run_interactive(flags)


def _neutralize() -> None:
    """Whatever is written from here on cannot drive a terminal; what goes elsewhere is left as it is."""
    if sys.stdout.isatty() or sys.stderr.isatty():
        from sagent.lib.terminal import neutralized

        sys.stdout, sys.stderr = neutralized(sys.stdout), neutralized(sys.stderr)


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()
