"""What a person sees, as pure functions from events to blocks and from blocks to lines."""
