"""sagent in a chat: a thread is a session. `surface.ChatSurface` is all that a service has to offer for it."""
