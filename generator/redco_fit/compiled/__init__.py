"""What compiled programs say, read from their text: README.md has the order of the modules."""
