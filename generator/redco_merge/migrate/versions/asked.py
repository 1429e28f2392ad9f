"""Files of settings, weights of sources, tables of pictures and trackers are asked for: parts of their modules have other names."""

from redco_merge.migrate.codemods import Migration, Rename

DATA = "project.runtime.data"
LOGGERS, TRACKERS = "project.runtime.monitor.loggers", "project.runtime.monitor.trackers"
TRACKER_NAMES = ("TensorBoard", "Tracker", "open_wandb", "open_trackio")
TEXT, PICTURES = f"{DATA}.text", f"{DATA}.pictures"

MIGRATION = Migration(
    8,
    "files of settings, weights of sources, tables of pictures and trackers are asked for",
    (
        Rename(f"{TEXT}.mixture.block_ends", f"{TEXT}.weighted.block_ends"),
        Rename(f"{TEXT}.mixture.source_at", f"{TEXT}.weighted.source_at"),
        *(Rename(f"{LOGGERS}.{name}", f"{TRACKERS}.{name}") for name in TRACKER_NAMES),
        Rename(f"{PICTURES}.tables.read_lines", f"{PICTURES}.picture_rows.read_lines"),
    ),
)
