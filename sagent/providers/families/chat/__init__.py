"""Chat Completions, as OpenAI and many others speak it."""
