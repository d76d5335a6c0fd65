"""The wall around commands: what the operating system lets them touch, whatever they try."""
