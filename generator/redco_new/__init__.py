"""redco-new: writes a sharded JAX training project from a model class."""

__version__ = "0.2.0"
