"""Migrations of users' code, by codemods that touch what they can prove; README.md lists the stages."""

from redco_merge.migrate.apply import Migrated, Step, migrate, stale_names
from redco_merge.migrate.versions import LATEST

__all__ = ["LATEST", "Migrated", "Step", "migrate", "stale_names"]
