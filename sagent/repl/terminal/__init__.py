"""The terminal: keys, lists, questions, and the rows that are drawn."""
