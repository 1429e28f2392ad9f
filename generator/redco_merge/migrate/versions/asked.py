"""Files of settings, and weights of sources, are asked for: what is left of their modules has another name."""

from redco_merge.migrate.codemods import Migration, Rename

TEXT = "project.runtime.data.text"

MIGRATION = Migration(
    8,
    "files of settings and weights of sources are asked for",
    (
        Rename(f"{TEXT}.mixture.block_ends", f"{TEXT}.weighted.block_ends"),
        Rename(f"{TEXT}.mixture.source_at", f"{TEXT}.weighted.source_at"),
    ),
)
