"""One agent: the loop and what it needs. It knows no tree, no disk, no advisor and no vendor."""
