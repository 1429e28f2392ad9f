"""What some projects alone need has modules of its own."""

from redco_merge.migrate.codemods import Migration, Rename

RUNTIME = "project.runtime"
TEXT = f"{RUNTIME}.data.text"

MIGRATION = Migration(
    6,
    "what some projects alone need has modules of its own",
    (
        Rename(f"{RUNTIME}.base.tensors.name_labels", f"{RUNTIME}.base.class_names.name_labels"),
        Rename(f"{RUNTIME}.base.tensors.part_tensors", f"{RUNTIME}.base.tensor_parts.part_tensors"),
        Rename(
            f"{RUNTIME}.nn.plain_losses.squared_error", f"{RUNTIME}.nn.squared_error.squared_error"
        ),
        Rename(
            f"{RUNTIME}.base.hub.use_cache_without_network",
            f"{RUNTIME}.base.hf_files.use_cache_without_network",
        ),
        Rename(f"{RUNTIME}.step.run_ahead.Pace", f"{RUNTIME}.step.guard.Pace"),
        Rename(
            f"{RUNTIME}.data.example_streams.held_out_example",
            f"{RUNTIME}.data.held_out.held_out_example",
        ),
        Rename(f"{TEXT}.blocks.first_tokens", f"{TEXT}.framed.first_tokens"),
        Rename(f"{TEXT}.examples.packed_texts", f"{TEXT}.framed.packed_texts"),
    ),
)
