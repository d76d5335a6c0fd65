"""Signals that end a command from outside."""

import asyncio
import os
import signal
from collections.abc import Callable

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def handled_signals() -> list[signal.Signals]:
    """Return the signals that end this process. One that its caller has had ignored does not, as everywhere on Unix:
    SIGHUP under nohup, SIGINT in the background of a script."""
    return [each for each in SIGNALS if each == signal.SIGTERM or signal.getsignal(each) != signal.SIG_IGN]


def on_first_signal(act: Callable[[int], object]) -> None:
    """Call a function with the number of the first signal, in the running loop; a second one ends the process."""
    begun = False

    def on_signal(number: int) -> None:
        nonlocal begun
        if begun:
            os._exit(128 + number)
        begun = True
        act(number)

    loop = asyncio.get_running_loop()
    for number in handled_signals():
        loop.add_signal_handler(number, on_signal, number)
