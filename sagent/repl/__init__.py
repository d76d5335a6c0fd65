"""The terminal: keys go into the inbox, events come out into a pure reducer and pure renderers. No agent logic."""
