"""The origin of each line of a file: the agent's call that wrote it, as the logs of sessions prove it."""

from sagent.plugin import Plugin

plugin = Plugin("blame", "the agent's call that wrote each line of a file, proven by the logs of sessions")
