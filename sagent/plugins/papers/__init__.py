"""Scientific papers: found, described, and read, by the open services that know them."""
