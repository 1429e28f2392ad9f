"""Several processes that are one run: meeting, heartbeat, agreement."""
