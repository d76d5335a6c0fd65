"""The engine: the loop and what it needs. Knows no vendor, no terminal, no tool by name."""

from sagent.agent.agent import Agent
from sagent.agent.tree import Tree, TreeLimits
from sagent.engine.limits import RunLimits
from sagent.engine.state import Asker, Resources, parse_effort

__all__ = ["Agent", "Asker", "Resources", "RunLimits", "Tree", "TreeLimits", "parse_effort"]
