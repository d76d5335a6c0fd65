"""The services that may be set by name: what finds pages and papers, and who reads pages."""

SERVICES = ("reader",)
