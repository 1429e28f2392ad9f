"""What a generated project needs at run time: a copy of this package is part of each project."""
