"""How well a text fits the letters that were typed."""


def matches(query: str, text: str) -> int | None:
    """How well a text fits what was typed, lower is better; None where its letters are not there in that order."""
    query, text = query.lower(), text.lower()
    if not query:
        return 0
    if (place := text.find(query)) >= 0:
        before = text[place - 1] if place else "/"
        return place // 8 - (8 if before in "/ .-_" else 0) - (8 if text[place:] == query else 0)
    position, score = -1, 20
    for letter in query:
        found = text.find(letter, position + 1)
        if found < 0:
            return None
        score += min(found - position - 1, 10)
        position = found
    return score + len(text) // 20
