"""What the user asks for: flags or redco.toml, checked alike, as one frozen Request."""

from redco_new.request.checks import COMPUTE, DTYPES, HOST, PRODUCTS, RING, STAGES, TORCH
from redco_new.request.dropout import CONFIG_RATES
from redco_new.request.lora import Lora
from redco_new.request.model import is_folder
from redco_new.request.request import Request

__all__ = [
    "COMPUTE",
    "CONFIG_RATES",
    "DTYPES",
    "HOST",
    "PRODUCTS",
    "RING",
    "STAGES",
    "TORCH",
    "Lora",
    "Request",
    "is_folder",
]
