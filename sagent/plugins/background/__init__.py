"""Sessions that go on without a terminal: each in a process of its own, on a socket for this user's other programs."""

from sagent.plugin import SESSIONS, Command, Flag, Plugin, Runner, SecretFolder

_COMMANDS = "sagent.plugins.background.commands"
plugin = Plugin(
    "background",
    "sessions that go on when their terminal is closed",
    commands=(
        Command("ps", "list the sessions that run in the background", f"{_COMMANDS}:run_ps", group=SESSIONS),
        Command("wait", "wait for the result of a background session", f"{_COMMANDS}:run_wait", group=SESSIONS),
        Command("stop", "interrupt a background session, and end it", f"{_COMMANDS}:run_stop", group=SESSIONS),
    ),
    flags=(Flag("bg", "run the prompt in the background: print the session's id and do not wait"),),
    runners=(Runner("sagent.plugins.background.starting:run_background"),),
    secret_folders=(SecretFolder("background"),),  # results of the person's sessions
    needs=("hosting",),
)
