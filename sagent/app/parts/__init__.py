"""Optional parts of an agent: a module for each, with an `add` that is given the agent's builder.

None is loaded unless the agent has it; `sagent/app/assembly.py` says when.
"""
