"""The text protocol: calls as blocks of text, for models that do not write calls natively."""
