"""The record of what calls did to files, so that it can be undone."""
