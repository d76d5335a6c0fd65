"""Subscriptions in place of keys: a Claude plan, a ChatGPT plan."""
