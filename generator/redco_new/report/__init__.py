"""How a run went, from the files of its work folder: README.md has the stages."""
