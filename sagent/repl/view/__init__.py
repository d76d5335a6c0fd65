"""What a person sees, as pure functions: events to blocks, blocks to lines."""
