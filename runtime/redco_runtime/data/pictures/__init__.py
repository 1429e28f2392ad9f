"""Pictures with captions or classes: drawn ones, a folder of one's own, and grids of them as PNG."""
