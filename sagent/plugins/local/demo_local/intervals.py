"""Merge overlapping time intervals, for a booking calendar."""


def merge(intervals):
    """Return the intervals sorted and merged: those that overlap become one."""
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged
