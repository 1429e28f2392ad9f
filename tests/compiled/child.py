"""The child of `redco fit`, which compiles nothing that a former run of the tests has compiled."""

from compiled.train_step import remembering
from redco_fit import child

if __name__ == "__main__":
    with remembering():
        child.main()
