"""Printing the files of a project from a template, and running the Python that it prints."""
