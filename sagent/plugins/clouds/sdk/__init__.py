"""The official SDKs as a transport, for the addresses, signatures and logins of the clouds."""
