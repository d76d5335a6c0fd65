"""The implementations of a bus: in this process, over NATS JetStream, over HTTP."""
