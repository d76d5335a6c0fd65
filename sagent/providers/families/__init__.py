"""The four wire families: requests out, events in."""
