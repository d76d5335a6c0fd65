"""Requests to hosts that a model or a page names: parse the address strictly, look it up once, judge it, and follow
redirects here."""

from sagent.plugin import Plugin

plugin = Plugin("gateway", "requests to hosts that a model names, past the wall; for web, papers and a2a")
