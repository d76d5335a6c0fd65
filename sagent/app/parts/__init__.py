"""Optional parts of an agent: a module for each, with an `add` that takes the agent's builder.

A module is loaded only if its part is wanted; `sagent/app/assembly.py` decides.
"""
