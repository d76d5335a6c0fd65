"""Sessions run again, compared and measured: replay, compare, sweep, gate, bench-advisor."""
