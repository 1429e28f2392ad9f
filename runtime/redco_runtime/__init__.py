"""What a generated project needs at run time: a copy of this package is part of each project."""

import sys

# Python begins a program: of this package, or of one that imports it first.
if sys.argv[:1] == ["-m"]:
    from .base.interrupts import Program

    Program()
