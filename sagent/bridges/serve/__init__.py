"""Sessions over HTTP and server-sent events, and a page that shows them. Needs sagent[serve]."""
