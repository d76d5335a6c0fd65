"""What a run did, in a file as it happens, and read again turn by turn: from that file or from a session's log."""
