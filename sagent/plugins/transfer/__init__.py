"""Sessions of other programs: their transcripts become sessions, and sessions become their transcripts."""

from sagent.plugin import SESSIONS, Command, Plugin, SlashCommand

plugin = Plugin(
    "transfer",
    "sessions of Claude Code, codex, Gemini CLI, opencode and pi, to go on with here",
    commands=(
        Command(
            "resume",
            "go on with a session of Claude Code, codex, Gemini CLI, opencode or pi",
            f"{__name__}.command:run_resume",
            group=SESSIONS,
        ),
    ),
    slash_commands=(SlashCommand("import-session", f"{__name__}.slash:import_session"),),
)
