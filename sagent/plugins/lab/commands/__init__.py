"""The commands of the lab, a module for each."""
