"""All migrations, first to last; each module has one, named after what changed."""

from redco_merge.migrate.versions import (
    asked,
    boot,
    draws,
    features,
    fewer,
    lean,
    loop,
    need,
    rooms,
    splits,
    survival,
)

MIGRATIONS = (
    loop.MIGRATION,
    survival.MIGRATION,
    draws.MIGRATION,
    splits.MIGRATION,
    rooms.MIGRATION,
    need.MIGRATION,
    features.MIGRATION,
    asked.MIGRATION,
    boot.MIGRATION,
    lean.MIGRATION,
    fewer.MIGRATION,
)
LATEST = MIGRATIONS[-1].number
