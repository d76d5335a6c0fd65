"""Code that is run by a Jupyter kernel, which keeps its variables from one call to the next."""
