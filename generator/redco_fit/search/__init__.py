"""Which mesh and settings train a model fastest on a machine that is not here, by an estimate: README.md has the stages."""
