"""The activations that emitted models have: templates/models/shared/layers.jinja prints them, and no other."""

# transformers' name -> what it is. The fast and the new gelu, and PyTorch's with tanh, are one
# approximation (Hendrycks and Gimpel 2016).
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_fast": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
