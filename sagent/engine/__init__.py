"""One agent: the loop and what it needs. It does not know the tree, the disk, advisors or vendors."""
