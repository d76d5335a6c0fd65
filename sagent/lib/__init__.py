"""The lowest layer: standard library only, without knowledge of agents."""
