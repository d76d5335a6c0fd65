"""Merge overlapping time intervals, for a booking calendar."""


def merge(intervals):
    """Return the intervals sorted and merged: those that overlap or touch become one.

    >>> merge([(1, 3), (2, 5), (8, 9)])
    [(1, 5), (8, 9)]
    """
    merged = []
    for start, end in sorted(intervals):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def total(intervals):
    """Return the time covered, overlaps counted once."""
    return sum(end - start for start, end in merge(intervals))
