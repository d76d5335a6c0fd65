"""Ground floor: standard library only, knows nothing of agents."""
