"""Requests to hosts that a model or somebody else names: read strictly, looked up once, judged, redirects by hand."""

from sagent.plugin import Plugin

plugin = Plugin("gateway", "requests to hosts that a model names, past the wall; for web, papers and a2a")
