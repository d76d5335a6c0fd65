"""What calls did to files, recorded so that it can be undone."""
