"""A map of a project: definitions by file, with the most used files first."""
