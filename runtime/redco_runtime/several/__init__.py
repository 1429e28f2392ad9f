"""Several models in a run: how one is trained before the others, and what compares them."""
