"""The wire families: requests out, events in."""
