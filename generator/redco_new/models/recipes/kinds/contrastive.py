"""Contrastive learning: images and captions that belong together."""

from redco_new.models.recipes.defaults import captioned_example, scored
from redco_new.models.recipes.recipe import Figure, OwnModel, Recipe, Words

RECIPE = Recipe(
    name="contrastive",
    title="images and captions that belong together (CLIP)",
    source="drawn shapes and what they are called",
    model=OwnModel("two encoders", "CLIP"),
    figure=Figure("retrieval_at_1", least=0.4, baseline="one of 72 captions: 0.014"),
    needs=frozenset(),
    words=Words(
        learns="which caption belongs to which of the shapes that it draws",
        loss="the loss, which falls from about 4, how many held-out images find their caption first, and captions their image",
        sample="how alike two held-out images and their captions are",
        prompt="0",
        predicts="says how alike an image and a caption are: a held-out pair, by its number, or `IMAGE=CAPTION`",
        data='a folder with images and a `metadata.jsonl`, a line `{"file_name": ..., "text": ...}` for each, by '
        "`--image-folder DIR`, rows with an `image` and a `text` by `--image-data rows.parquet` (the feature `tables`), or change `examples` in "
        "`pipeline.py`",
    ),
    example=captioned_example,
    tiny={
        "model": {
            "image_size": 32,
            "caption_length": 48,
            "width": 64,
            "num_heads": 4,
            "num_layers": 2,
            "shared_dim": 64,
        },
        "optimizer": {"learning_rate": 2e-3, "warmup_steps": 20},
        "train": {"steps": 200, "batch_size": 64, "eval_every": 100, "save_every": 100},
    },
    train=scored("retrieval_at_1", examples=1000),
    packages=("pillow>=11",),
    pictures=True,
    whole_batch=True,
    order=230,
)
