"""What the user asks for: flags or redco.toml, checked alike, as one frozen Request."""

from redco_new.request.dropout import CONFIG_RATES
from redco_new.request.lora import Lora
from redco_new.request.request import DTYPES, STAGES, TORCH, Request, is_folder

__all__ = ["CONFIG_RATES", "DTYPES", "STAGES", "TORCH", "Lora", "Request", "is_folder"]
