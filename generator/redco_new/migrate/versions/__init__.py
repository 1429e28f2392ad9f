"""All migrations, first to last; each module has one, named after what changed."""

from redco_new.migrate.versions import captions, draws, loop, survival

MIGRATIONS = (loop.MIGRATION, survival.MIGRATION, draws.MIGRATION, captions.MIGRATION)
LATEST = MIGRATIONS[-1].number
