"""Actors beside the learner: examples that the model itself makes, with the parameters that it has by then.

`Actor` is what a pipeline has besides the three functions; `rounds` gives the loop its batches, `playing` evaluates.
"""
