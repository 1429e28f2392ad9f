"""What a training step is made of: gradients, optimizers, what is saved for the backward pass."""
