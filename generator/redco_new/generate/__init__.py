"""From a request to the text of a project: the model, its program, the plan, what templates see, files."""
