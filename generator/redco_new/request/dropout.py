"""What --dropout asks for: a rate, or those of a checkpoint."""

from typing import Any

from redco_new.errors import RedcoError

CONFIG_RATES = "config"  # the rates that the config.json of a checkpoint has


def check_dropout(where: str, value: Any) -> float | str:
    """Return the rate of dropout that a flag or redco.toml asks for. Raises RedcoError, which names `where`."""
    if value == CONFIG_RATES:
        return CONFIG_RATES
    try:
        rate = float(value) if type(value) in (int, float, str) else -1.0
    except ValueError:
        rate = -1.0
    if not 0 <= rate < 1:
        todo = f"give a number from 0 to below 1, or {CONFIG_RATES}: those of a checkpoint"
        raise RedcoError(where, f"{value!r} is no share", todo)
    return rate
