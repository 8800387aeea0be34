"""Are pictures resized as the image processors of transformers resize them, by the numbers of their files alone?"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from probes.classifiers.image_models import read_processor
from probes.classifiers.images import load_images
from probes.classifiers.resizing import processor_resizing
from probes.core.library_imports import transformers

SIZES = ((64, 48), (47, 63), (40, 40), (33, 90), (31, 32), (200, 41))
CLIP = {"size": {"shortest_edge": 28}, "do_center_crop": True, "crop_size": {"height": 28, "width": 28}}
SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("ViTImageProcessor", {"size": {"height": 24, "width": 24}, "resample": 2}),
    ("ViTImageProcessor", {"size": {"height": 24, "width": 30}, "resample": 0}),
    ("CLIPImageProcessor", {**CLIP, "resample": 3}),
    ("CLIPImageProcessor", {**CLIP, "crop_size": {"height": 25, "width": 24}, "resample": 1}),
    ("ConvNextImageProcessor", {"size": {"shortest_edge": 28}, "crop_pct": 0.875, "resample": 3}),
    ("ConvNextImageProcessor", {"size": {"shortest_edge": 384}, "resample": 3}),
]


@pytest.mark.parametrize(("kind", "settings"), SETTINGS)
def test_pixels_are_those_of_the_processor(kind: str, settings: dict[str, Any], tmp_path: Path) -> None:
    processor = getattr(transformers(), f"{kind}Pil")(**settings, do_normalize=False)
    model, data = tmp_path / "model", tmp_path / "data"
    model.mkdir()
    told = {**json.loads(processor.to_json_string()), "image_processor_type": kind, **settings}
    (model / "preprocessor_config.json").write_text(json.dumps(told))
    (data / "one").mkdir(parents=True)
    rng = np.random.default_rng(5)
    for index, (width, height) in enumerate(SIZES):
        smooth = Image.fromarray(rng.integers(0, 256, (5, 7, 3), dtype=np.uint8)).resize((width, height))
        smooth.save(data / "one" / f"{index}.png")
    images = load_images(data, resize=processor_resizing(*read_processor(model)))
    for index in range(len(SIZES)):
        with Image.open(data / "one" / f"{index}.png") as picture:
            expected = np.asarray(processor(picture, return_tensors="np")["pixel_values"][0])
        found = images.pixels(index)
        assert found.shape == expected.shape
        assert np.abs(found - expected).max() <= 1e-6
