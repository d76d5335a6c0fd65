"""Content of the context: the system prompt, instructions found, and how much of an output."""
