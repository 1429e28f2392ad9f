"""Writes a family from a neighbour."""
