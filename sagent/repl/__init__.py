"""The REPL: what is typed goes to the agent's inbox, and its events are reduced, rendered and painted."""
