"""The table of checks: what each measures, whose word it is, and what to do where it fails."""

from __future__ import annotations

from dataclasses import dataclass

WRONG, CHANGE = "wrong", "change"


@dataclass(frozen=True)
class Check:
    """One thing that an edit may break.

    kind: WRONG, never right, whatever was meant; or CHANGE of a fact of .redco/check.json, which its user may mean.
    measures: what is measured.  todo: what to do where it fails.
    about: parts of paths of the files that such a fault is looked for in first.
    """

    name: str
    kind: str
    measures: str
    todo: str
    about: tuple[str, ...] = ()


MODEL = ("model.py", "pipeline.py", "runtime/nn")
CHECKS = {
    check.name: check
    for check in (
        Check(
            *("update", WRONG),
            "what `redco update --check` says: the files that redco writes follow from the model and redco.toml",
            "`redco update`",
        ),
        Check(
            *("tests", WRONG),
            "the project's own tests, by pytest; of redco's those alone that what was edited can break, and no row below measures",
            "mend what the test names, or the test where it is wrong",
        ),
        Check(
            *("runs", WRONG),
            "every module is imported; the preset tiny compiles and takes a step",
            "mend that line",
        ),
        Check(
            *("sharded", WRONG),
            "a step over devices, in one micro-batch and in two, gives the loss, the moments and the parameters that it "
            "gives on one device",
            "no result may depend on the mesh: look for a sum or a mean over what is split, an axis by name, a shape of a part",
            (*MODEL, "sharding.py", "steps.py", "runtime/step", "runtime/layout"),
        ),
        Check(
            *("gathers", WRONG),
            "no all-gather of the step has the whole sequence, unless sharding.py splits it, or a model has experts",
            "lay the activation out as its neighbours are, in ACTIVATIONS of sharding.py, or take the gather out",
            ("sharding.py", *MODEL),
        ),
        Check(
            *("masks", WRONG),
            "what a mask of the batch covers changes no loss, and that it covers it does; no text of a packed row sees another",
            "give the mask to what computes with it: attention, pooling, the weights of the loss",
            MODEL,
        ),
        Check(
            *("seeded", WRONG),
            "the batches of four steps, made twice here and once in another process, are the same",
            "draw by the seed of config.py, or by what an example itself is given",
            ("pipeline.py", "data"),
        ),
        Check(
            *("resume", WRONG),
            "a run that goes on from its second step has the losses and the last checkpoint of one that was not stopped, to "
            "the bit",
            "what a step carries to the next belongs into its state, and what is drawn follows from the seed and the step",
            (
                "train.py",
                "steps.py",
                "runtime/checkpoints",
                "runtime/base",
                "pipeline.py",
                "runtime/data",
            ),
        ),
        Check(
            *("loss", CHANGE),
            "loss and gradient's norm of four seeded steps",
            "if you mean it: redco check --accept loss",
            (*MODEL, "config.py", "steps.py", "runtime/step"),
        ),
        Check(
            *("order", CHANGE),
            "what is in the batches of four seeded steps",
            "if you mean it: redco check --accept order",
            ("pipeline.py", "config.py", "runtime/data"),
        ),
        Check(
            *("reach", CHANGE),
            "which losses of a row a token has an effect on: those after it, or all",
            "if you mean it: redco check --accept reach",
            MODEL,
        ),
        Check(
            *("specs", CHANGE),
            "the PartitionSpec of each array of the state, of the batch, and of ACTIVATIONS",
            "if you mean it: redco check --accept specs",
            ("sharding.py", "model.py", "runtime/layout"),
        ),
        Check(
            *("checkpoint", CHANGE),
            "name, dtype and shape of each array of a checkpoint",
            "older checkpoints may not fit; if you mean it: redco check --accept checkpoint",
            ("model.py", "config.py", "steps.py", "runtime/checkpoints", "runtime/base"),
        ),
        Check(
            *("collectives", CHANGE),
            "bytes that a step sends, by kind and axis: more is a change, less is recorded",
            "if it is worth it: redco check --accept collectives",
            ("sharding.py", *MODEL, "steps.py", "runtime/step", "runtime/layout"),
        ),
    )
}
ACCEPTABLE = tuple(name for name, check in CHECKS.items() if check.kind == CHANGE)
