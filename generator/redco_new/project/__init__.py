"""A project on disk: creating it, and what redco remembers of it."""
