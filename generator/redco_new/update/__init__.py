"""Updating a project: what was asked for and what the user wrote become one tree, or nothing changes."""
