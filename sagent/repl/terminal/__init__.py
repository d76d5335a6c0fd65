"""The terminal: keys in, rows out."""
