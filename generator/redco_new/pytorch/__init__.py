"""A class of PyTorch, printed as a model in Flax NNX: README.md has the steps."""
