"""What the work costs: prices of models, and the ledger that keeps a tree of agents under its budget."""
