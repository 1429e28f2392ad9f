"""Answers that a model draws, several to a question, and what they are worth."""
