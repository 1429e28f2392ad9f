"""What few projects need is a feature: what is left of a module has another name."""

from redco_merge.migrate.codemods import Migration, Rename

RUNTIME = "project.runtime"
DATA, APART = f"{RUNTIME}.data", f"{RUNTIME}.layout.apart"

MIGRATION = Migration(
    7,
    "what few projects need is a feature, and what is left of its module has another name",
    (
        Rename(f"{DATA}.preview.prepare", f"{DATA}.dry_run.prepare"),
        Rename(f"{DATA}.example_streams.Stream", f"{DATA}.iterators.Stream"),
        Rename(
            f"{RUNTIME}.checkpoints.best.is_out_of_patience",
            f"{RUNTIME}.loop.evaluation.is_out_of_patience",
        ),
        Rename(f"{RUNTIME}.checkpoints.lora.lora.QLora", f"{RUNTIME}.checkpoints.lora.qlora.QLora"),
        Rename(f"{APART}.put_together", f"{APART}.stored.put_together"),
        Rename(f"{APART}.run_apart", f"{APART}.run.run_apart"),
        Rename(f"{APART}.take_apart", f"{APART}.stored.take_apart"),
    ),
)
