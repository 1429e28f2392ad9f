"""Whether a project's step fits a machine that is not here, by the machine's own compiler: README.md has the stages."""

from redco_fit.compiling import compile_step
from redco_fit.reading import Job, Reading
from redco_fit.target import Target, parse_target

__all__ = ["Job", "Reading", "Target", "compile_step", "parse_target"]
