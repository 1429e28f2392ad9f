"""What is drawn for an example comes from one function, which knows its pass."""

from redco_merge.migrate.codemods import Call, Migration

MASK = "redco_runtime.text.masking.mask_tokens"
RANDOM = "redco_runtime.draws.example_random(seed, index)"

MIGRATION = Migration(
    3,
    "masks are drawn by redco_runtime/draws.py",
    (
        Call(
            f"{MASK}(ids, tokenizer, share, seed, index)",
            f"{MASK}(ids, tokenizer, share, {RANDOM})",
        ),
    ),
    {},
)
