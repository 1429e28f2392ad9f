"""Documents of any size as examples: what `--data` names, tokenized once, packed, mixed in an exact order."""
