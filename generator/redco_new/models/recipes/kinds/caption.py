"""Captions of pictures: an encoder of images and a decoder of text."""

from redco_new.models.recipes.defaults import captioned_example, scored
from redco_new.models.recipes.recipe import Figure, OwnModel, Recipe, Words

RECIPE = Recipe(
    name="caption",
    title="captions of pictures: an encoder of images and a decoder of text",
    source="drawn shapes of four colors in four places",
    model=OwnModel("a captioner", "Captioner"),
    figure=Figure("exact_match", least=0.9, baseline="one caption of 64: 0.016"),
    needs=frozenset(),
    words=Words(
        learns="to say which shape of which color is where in drawn pictures",
        loss="the loss of a byte, which falls from about 5.5, the share of captions that are right byte by byte",
        sample="the captions of two held-out pictures",
        prompt="0",
        predicts="writes the caption of a picture: a file, or the number of a held-out one",
        data='a folder with pictures and a `metadata.jsonl`, a line `{"file_name": ..., "text": ...}` for each, by '
        "`--image-folder DIR`, rows with an `image` and a `text` by `--image-data rows.parquet` (the feature `tables`), or change `examples` in "
        "`pipeline.py`",
    ),
    example=captioned_example,
    tiny={
        "model": {
            "image_size": 16,
            "caption_length": 32,
            "width": 64,
            "encoder_layers": 2,
            "decoder_layers": 2,
        },
        "optimizer": {"learning_rate": 2e-3, "warmup_steps": 20},
        "train": {"steps": 250, "batch_size": 32, "eval_every": 125, "save_every": 125},
    },
    train=scored("exact_match", examples=128),
    packages=("matplotlib>=3.10", "pillow>=11"),
    pictures=True,
    prompt_fields=("image", "file_name", "path", "prompt"),
    smooths=True,
    order=120,
)
