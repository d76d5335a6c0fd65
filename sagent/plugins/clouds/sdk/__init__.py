"""The official SDKs as a transport. They know the addresses, signatures and logins of the clouds."""
