"""Our plugins, a folder for each. The core imports none of them: each may be deleted."""
