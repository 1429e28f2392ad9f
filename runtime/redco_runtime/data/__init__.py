"""Examples and batches: order, collating, and what a recipe reads."""
