"""`redco check`: one verdict on an edit of a project."""
