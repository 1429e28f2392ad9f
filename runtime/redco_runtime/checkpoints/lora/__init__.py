"""Adapters as files that PEFT loads, and the start from them."""
