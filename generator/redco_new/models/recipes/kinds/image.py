"""The class of an image."""

from collections.abc import Mapping
from typing import Any

from redco_new.models.family import IMAGES
from redco_new.models.recipes.defaults import TINY_TEXT, scored
from redco_new.models.recipes.recipe import Figure, Recipe, Words


def _example(sizes: Mapping[str, Any], length: int) -> dict[str, Any]:
    drawn = ("circle", 0, 0)
    return {"image": (drawn, sizes["image_size"], sizes["num_channels"]), "label": 0}


RECIPE = Recipe(
    name="image",
    title="the class of an image",
    source="shapes, drawn on the spot",
    model="vit",
    figure=Figure("accuracy", least=0.6, baseline="one shape of 8: 0.125"),
    needs=IMAGES,
    words=Words(
        learns="to tell drawn shapes apart",
        loss="the loss, which falls from about 2 to about 1, the accuracy",
        sample="the class of two images",
        prompt="circle",
        predicts="names the class of an image: a file, or here a shape to draw",
        data="change `examples` in `pipeline.py`, or give a folder with one of .npy, .png or .jpg files "
        "for each class with `--image-folder DIR`",
    ),
    example=_example,
    tiny={
        "optimizer": {"learning_rate": 2e-3, "warmup_steps": 20},
        "train": TINY_TEXT["train"] | {"batch_size": 64},
    },
    train=scored("accuracy"),
    order=50,
)
