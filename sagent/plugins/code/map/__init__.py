"""A map of a project: what is defined where, the files first that others lean on."""
