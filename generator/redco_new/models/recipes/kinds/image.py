"""The class of a picture."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from redco_new.models.family import IMAGES
from redco_new.models.recipes.defaults import TUNED, TUNED_ADAPTER, scored
from redco_new.models.recipes.recipe import Figure, Recipe, Words


def _example(sizes: Mapping[str, Any], length: int) -> dict[str, Any]:
    size = sizes["image_size"]
    return {
        "pixels": np.zeros((size, size, sizes["num_channels"]), np.uint8),
        "label": np.int32(0),
        **dict.fromkeys(("mean", "std"), np.ones(sizes["num_channels"], np.float32)),
    }


RECIPE = Recipe(
    name="image",
    title="the class of an image",
    source="digits of scikit-learn",
    model="vit",
    figure=Figure("accuracy", least=0.97, baseline="one digit of 10: 0.1"),
    needs=IMAGES,
    words=Words(
        learns="to read the digits of scikit-learn",
        loss="the loss, which falls from about 2.3, the accuracy",
        sample="the class of two held-out digits",
        prompt="0",
        predicts="names the class of a picture: a file, or the number of a held-out one",
        data="give a folder with one for each class with `--image-folder DIR`, rows with an `image` and a "
        "`label` with `--image-data rows.parquet` (the feature `tables`), or change `examples` in `pipeline.py`",
    ),
    example=_example,
    tiny={
        "data": {"held_out": 0.2},
        "optimizer": {"learning_rate": 4e-3, "warmup_steps": 100},
        "train": {"steps": 3000, "batch_size": 64, "eval_every": 1000, "save_every": 1000},
    },
    train=scored("accuracy", examples=1024),
    packages=("matplotlib>=3.10", "pillow>=11", "scikit-learn>=1.5"),
    pictures=True,
    classes=("head",),
    smooths=True,
    drops=True,
    rate=TUNED,
    adapter_rate=TUNED_ADAPTER,
    prompt_fields=("image", "file_name", "path", "prompt"),
    order=50,
)
