"""Programs that plugins start: servers on pipes, and commands that check the result of a run."""

from sagent.plugin import Plugin

plugin = Plugin("programs", "what plugins that start programs have in common")
