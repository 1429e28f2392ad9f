"""States on disk: saved, verified, restored, exported, begun from."""
