"""flaxmodels: ResNet, with running statistics."""

import numpy as np


def example(side=32, classes=8):
    arguments = {"output": "logits", "pretrained": None, "num_classes": classes}
    return arguments, {"x": np.zeros((1, side, side, 3), np.float32)}


def large():
    return example(224, 1000)
