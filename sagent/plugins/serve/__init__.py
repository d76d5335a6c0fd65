"""Sessions over HTTP and server-sent events, and a page that shows them. Needs sagent[serve]."""

from sagent.plugin import Command, Plugin

plugin = Plugin(
    "serve",
    "sessions over HTTP, for programs and the browser",
    commands=(
        Command(
            "serve", "serve sessions over HTTP, for programs and the browser", "sagent.plugins.serve.command:run_serve"
        ),
    ),
)
