"""Events of a run as JSON, and what is taken out of text that is for others."""
