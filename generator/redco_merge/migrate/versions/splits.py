"""Modules that were two: a project carries the half that it needs."""

from redco_merge.migrate.codemods import Migration, Rename

PICTURES, LOSSES = "redco_runtime.pictures", "redco_runtime"
CLI, OUTPUT = "redco_runtime.cli", "redco_runtime.output"

MIGRATION = Migration(
    4,
    "pictures with captions, and losses without chunks, have modules of their own",
    (
        Rename(f"{CLI}.print_once", f"{OUTPUT}.print_once"),
        Rename(f"{CLI}.announce", f"{OUTPUT}.announce"),
        Rename(f"{PICTURES}.reading.read_captioned", f"{PICTURES}.captioned.read_captioned"),
        Rename(f"{PICTURES}.reading.Captioned", f"{PICTURES}.captioned.Captioned"),
        Rename(f"{LOSSES}.losses.class_losses", f"{LOSSES}.plain_losses.class_losses"),
        Rename(f"{LOSSES}.losses.squared_error", f"{LOSSES}.plain_losses.squared_error"),
        Rename(f"{LOSSES}.losses.smooth_labels", f"{LOSSES}.plain_losses.smooth_labels"),
    ),
    {
        "redco_runtime.adapters.base.without_adapter": "with_fixed_adapter(policy) of that module, made once, as the class "
        "Models of the pipeline that redco writes has it: the reference is what training starts from",
    },
)
