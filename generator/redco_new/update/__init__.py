"""Updating a project: what is asked for and what the user wrote become one tree, or all stays.

README.md lists the stages.
"""
