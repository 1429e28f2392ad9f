"""All migrations, first to last; each module has one, named after what changed."""

from redco_new.migrate.versions import draws, loop, survival

MIGRATIONS = (loop.MIGRATION, survival.MIGRATION, draws.MIGRATION)
LATEST = MIGRATIONS[-1].number
