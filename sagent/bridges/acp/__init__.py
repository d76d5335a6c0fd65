"""sagent as an agent of the Agent Client Protocol (agentclientprotocol.com), for Zed, JetBrains, neovim and others.

`bridges/jsonrpc` speaks JSON-RPC, `stdio` has its lines, `server` answers the methods, `session` is one conversation.
`version1` says what an event is in protocol 1; a later version of the protocol gets a table of its own beside it.
"""
