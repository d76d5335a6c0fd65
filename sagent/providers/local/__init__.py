"""Models on this machine: transformers weights and llama.cpp."""
