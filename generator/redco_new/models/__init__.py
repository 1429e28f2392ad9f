"""What `--model` and `--recipe` name: where their code lies, and how to build one to look at."""
