"""What an agent may have in addition: a module for each part, with an `add` that is given the agent's builder.

None is loaded unless the agent has it; `sagent/app/assembly.py` says when.
"""
