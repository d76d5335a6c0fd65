"""The commands `export`, `share`, `trace` and `advice`."""
