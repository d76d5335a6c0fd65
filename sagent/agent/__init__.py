"""Agents: each runs one engine, and all of a session form a tree."""

from sagent.agent.agent import Agent
from sagent.agent.resources import Asker, Resources
from sagent.agent.tree import Tree, TreeLimits
from sagent.engine.context import RunLimits
from sagent.engine.state import parse_effort

__all__ = ["Agent", "Asker", "Resources", "RunLimits", "Tree", "TreeLimits", "parse_effort"]
