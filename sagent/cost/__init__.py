"""Prices of models, and the ledger that keeps a tree of agents within its budget."""
