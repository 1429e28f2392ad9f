"""What some projects alone need of texts and of layers has modules of its own."""

from redco_merge.migrate.codemods import Migration, Rename

RUNTIME = "project.runtime"
TEXT = f"{RUNTIME}.data.text"

MIGRATION = Migration(
    10,
    "rows of texts, and layers in a loop over tokens, have modules of their own",
    (
        Rename(f"{TEXT}.examples.text_examples", f"{TEXT}.text_examples.text_examples"),
        Rename(f"{TEXT}.blocks.cut_texts", f"{TEXT}.text_examples.cut_texts"),
        Rename(f"{TEXT}.framed.packed_texts", f"{TEXT}.framed_texts.packed_texts"),
        Rename(f"{TEXT}.texts.Text", f"{TEXT}.documents.Text"),
        Rename(f"{RUNTIME}.nn.layers.each_layer", f"{RUNTIME}.nn.decoding.each_layer"),
        Rename(f"{RUNTIME}.nn.layers.unstack", f"{RUNTIME}.nn.decoding.unstack"),
        Rename(f"{TEXT}.tokens.pack", f"{TEXT}.in_memory.pack"),
        Rename(f"{TEXT}.rows.rows_in_memory", f"{TEXT}.in_memory.rows_in_memory"),
    ),
    {
        f"{RUNTIME}.actors.rollouts.imagine": "what a rollout gives: redco alone asked for its shapes",
        f"{RUNTIME}.step.remat.saved_size": "no call: Steps of steps.py has no `saved`",
    },
)
