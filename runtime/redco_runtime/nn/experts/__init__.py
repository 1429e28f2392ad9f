"""Mixtures of experts: routing, exchange, grouped products."""
