"""Adapters beside linear layers, and kernels in few bits."""
