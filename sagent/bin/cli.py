#!/usr/bin/env python3
"""`sagent`: the entry point, also as `python sagent/bin/cli.py` from a checkout. Answers --version before all else."""

import atexit
import gc
import os
import sys

if __name__ == "__main__":  # run as a file: the checkout replaces this directory on the path
    sys.path[0] = os.path.realpath(__file__).rsplit("/", 3)[0]


def start() -> None:
    """Run the command line as a process, and end it with the exit code."""
    _choose_utf8()
    _leave_directory_out()
    codes: list[int] = []
    atexit.register(_leave, codes)  # the first to be registered, so the last to be called
    codes.append(main())
    sys.exit(codes[0])


def main() -> int:
    """Run the command line; returns the exit code."""
    gc.set_threshold(50_000)  # imported objects stay: searching them for garbage took a twentieth of the start
    _open_standard_streams()
    argv = sys.argv[1:]
    if argv in (["--version"], ["-V"]):
        from sagent.version import __version__

        try:
            sys.stdout.write(f"sagent {__version__}\n")
            sys.stdout.flush()
        except OSError as error:
            from sagent.cli.main import output_failed

            return output_failed(error)
        return 0
    from sagent.cli.main import run

    _notice_ended_children()
    return run(argv)


def _leave_directory_out() -> None:
    """Remove the working directory, where commands write, from the import path, where `python -m` and PYTHONPATH put
    it; except for this program, if it is there."""
    join, here = os.path.join, os.path.abspath  # pathlib is not loaded yet
    try:
        given = {here(each) for each in ("", *os.environ.get("PYTHONPATH", "").split(os.pathsep))}
    except FileNotFoundError:  # it was deleted
        return
    inside, own = join(os.path.realpath(""), ""), os.path.realpath(__file__).rsplit("/", 3)[0]
    reals = {each: os.path.realpath(each) for each in given}
    away = {each for each, real in reals.items() if join(real, "").startswith(inside) and real != own}
    sys.path[:] = [each for each in sys.path if here(each) not in away]


def _choose_utf8() -> None:
    """Restart in Python's UTF-8 mode if a locale such as ISO-8859-1 would encode file names and arguments, because a
    model's text does not fit into it."""
    if sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode and sys.executable:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606 -- this program


def _notice_ended_children() -> None:
    """Reset SIGCHLD if the caller ignores it: exit codes would be lost, and bubblewrap would never end."""
    import signal

    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _leave(codes: list[int]) -> None:
    """Exit without deleting loaded objects, which took a fifth of a run."""
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (OSError, ValueError):
        return  # the interpreter reports it
    if codes:
        os._exit(codes[0])


def _open_standard_streams() -> None:
    """Open /dev/null for each closed standard stream, so that no file takes its number; writing to stdout fails."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            while (opened := os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_RDWR)) < number:
                pass
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))


if __name__ == "__main__":
    start()
