"""Events of a run as JSON, and redaction of text for others."""
