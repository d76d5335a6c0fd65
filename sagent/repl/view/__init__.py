"""Display of a session, as pure functions from events to blocks and from blocks to lines."""
