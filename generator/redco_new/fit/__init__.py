"""Whether a project's step fits a machine that is not here, by the machine's own compiler: README.md has the stages."""
