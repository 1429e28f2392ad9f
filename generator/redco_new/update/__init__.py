"""Updating a project: what redco.toml asks for and what the user wrote become one tree, or nothing changes.

README.md lists the stages.
"""
