"""Pictures with captions: drawn ones, a folder of one's own, and grids of them as PNG."""
