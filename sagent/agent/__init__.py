"""The engine: the loop and what it needs. Knows no vendor, no terminal, no tool by name."""

from sagent.agent.agent import Agent
from sagent.agent.bounds import Bounds
from sagent.agent.state import Asker, Resources, parse_effort
from sagent.agent.tree import Tree, TreeLimits

__all__ = ["Agent", "Asker", "Bounds", "Resources", "Tree", "TreeLimits", "parse_effort"]
