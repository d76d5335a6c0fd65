"""Words of a text, for the preview of a message."""


def last_words(text, count):
    """Return the last words of a text, as many as asked for."""
    words = text.split()
    return words[-count - 1 : -1]
