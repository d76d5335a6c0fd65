"""A stronger model as a tool: what it is asked, what it sees, when it is asked unbidden, and what bounds all of it."""
