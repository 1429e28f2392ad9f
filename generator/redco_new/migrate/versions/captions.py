"""Pictures with captions have a module of their own, which pictures of classes do without."""

from redco_new.migrate.codemods import Migration, Rename

BEFORE, AFTER = "redco_runtime.pictures.reading", "redco_runtime.pictures.captioned"

MIGRATION = Migration(
    4,
    "pictures with captions are read by redco_runtime/pictures/captioned.py",
    tuple(
        Rename(f"{BEFORE}.{name}", f"{AFTER}.{name}") for name in ("read_captioned", "Captioned")
    ),
    {},
)
