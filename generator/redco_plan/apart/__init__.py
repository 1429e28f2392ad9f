"""Programs computed in another form: fused arrays in parts, heads apart from the rows of the batch.

The engine plans them so. A project of a user's own class has what it needs of it: run.py, for the rows of the batch; rewritten.py
where the layout gains by a program of its own; stored.py where the class fuses arrays.
"""
