"""A review of changes: a model reads them and what is around them, writes nothing, and answers with findings."""
