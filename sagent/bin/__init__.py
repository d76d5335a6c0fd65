"""The program's entry."""
