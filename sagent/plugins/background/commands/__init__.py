"""The commands for background sessions."""
