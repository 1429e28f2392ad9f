"""A model as one file that llama.cpp opens."""
