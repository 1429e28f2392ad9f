"""Pictures of what a text says, by diffusion."""

from redco_new.models.recipes.defaults import captioned_example, scored
from redco_new.models.recipes.recipe import Figure, OwnModel, Recipe, Words

RECIPE = Recipe(
    name="text-to-image",
    title="pictures of what a text says: diffusion, with classifier-free guidance",
    source="drawn shapes of four colors in four places",
    model=OwnModel("a diffusion transformer", "DiT"),
    figure=Figure(
        "read_right", least=0.7, baseline="whatever is painted for one caption of 64: 0.016"
    ),
    needs=frozenset(),
    words=Words(
        learns="to paint shapes of a color in a place, as their captions say",
        loss="the loss, which falls from about 2.5, the share of painted pictures that are nearest to one of their "
        "caption, and the loss with captions and without",
        sample="what two painted pictures are read as",
        prompt='"a red circle, top left"',
        predicts="paints what a caption says, into `--picture FILE`",
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
            "text_layers": 1,
            "layers": 2,
        },
        "optimizer": {"learning_rate": 5e-3, "warmup_steps": 20},
        "train": {"steps": 800, "batch_size": 32, "eval_every": 400, "save_every": 400},
    },
    train=scored("read_right", examples=128),
    packages=("matplotlib>=3.10", "pillow>=11"),
    pictures=True,
    whole_batch=True,
    prompt_fields=("text", "prompt"),
    order=130,
)
