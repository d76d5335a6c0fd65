"""sagent as an A2A agent (a2a-protocol.org, versions 1.0 and 0.3). Needs sagent[a2a].

A context is a session, and a task is one prompt in it. What became of a task is in the session's log: `records` has
which entries of the log belong to which task, and what clients said in it.
"""
