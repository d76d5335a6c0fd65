"""Programs that plugins start: spoken to over pipes, or asked whether what a run left is good."""

from sagent.plugin import Plugin

plugin = Plugin("programs", "what plugins that start programs have in common")
