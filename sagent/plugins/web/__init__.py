"""The web as tools see it: addresses that are checked, pages that are read, searches."""
