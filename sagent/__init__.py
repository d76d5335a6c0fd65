"""sagent: coding agents on any model of any provider. `import sagent` does no work; take names from its modules."""

__version__ = "0.1.0"
