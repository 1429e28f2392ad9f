"""What reads data: a program of its own, which imports no JAX."""
