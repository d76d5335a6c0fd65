"""Events of a run as JSON and in a file, and what is taken out of text that is for others."""
