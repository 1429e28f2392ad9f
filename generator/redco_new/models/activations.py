"""The activations that emitted models have, as Python: no other can be printed."""

# transformers' name -> the expression that the emitted code has for it, of %s. The fast and the
# new gelu, and PyTorch's with tanh, are one approximation (Hendrycks and Gimpel 2016).
ACTIVATIONS = {
    "gelu": "jax.nn.gelu(%s, approximate=False)",
    "gelu_fast": "jax.nn.gelu(%s, approximate=True)",
    "gelu_new": "jax.nn.gelu(%s, approximate=True)",
    "gelu_pytorch_tanh": "jax.nn.gelu(%s, approximate=True)",
    "relu": "jax.nn.relu(%s)",
    "silu": "jax.nn.silu(%s)",
    "swish": "jax.nn.silu(%s)",
}
