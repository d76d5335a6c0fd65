"""A part of the status line: how busy this machine is."""

import os

from sagent.plugin import Plugin, StatusPart
from sagent.repl.view.panel import Figures


def show(figures: Figures) -> str:
    """Return the load of the last minute, while there is work that makes some."""
    return f"load {os.getloadavg()[0]:.1f}" if figures.model else ""


plugin = Plugin(
    "status-part",
    "shows the machine's load",
    status_parts=(StatusPart("load", "the machine's load in the last minute", ":show"),),
)
