"""The slash commands, by what they are about."""
