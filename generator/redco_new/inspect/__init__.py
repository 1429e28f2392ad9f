"""`redco inspect`: how a model's parameters are split, and why, for people and for programs."""
