"""Chat Completions, the protocol of OpenAI and many others."""
