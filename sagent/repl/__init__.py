"""The REPL: typed lines go to the agent's inbox; its events are reduced, rendered and painted."""
