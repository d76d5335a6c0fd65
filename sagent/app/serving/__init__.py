"""What servers of sessions have in common: who is admitted, how errors are answered, and how a server ends."""
