"""Requests that wait for others and go out together, at the price of a provider's batch API."""
