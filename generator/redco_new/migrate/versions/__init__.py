"""All migrations, first to last; each module has one, named after what changed."""

from redco_new.migrate.versions import draws, loop, splits, survival

MIGRATIONS = (loop.MIGRATION, survival.MIGRATION, draws.MIGRATION, splits.MIGRATION)
LATEST = MIGRATIONS[-1].number
