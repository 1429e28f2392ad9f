"""Adapters beside a frozen model, of projects that train one."""
