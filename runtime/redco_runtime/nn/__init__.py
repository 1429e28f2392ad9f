"""What a model is made of: attention, layers, losses, generation."""
