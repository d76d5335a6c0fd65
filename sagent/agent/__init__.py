"""The engine: the loop and what it needs. Knows no vendor, no terminal, no tool by name."""

from sagent.agent.agent import Agent
from sagent.agent.state import Asker, Bounds, Resources, parse_effort

__all__ = ["Agent", "Asker", "Bounds", "Resources", "parse_effort"]
