"""Tools that understand code: language servers, and a map of a project's definitions."""
