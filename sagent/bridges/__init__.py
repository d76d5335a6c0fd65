"""Old names of modules that became plugins. Each warns when it is used."""
