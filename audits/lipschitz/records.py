"""The rows of records.csv: one for each image, or without images for each layer."""

from typing import TYPE_CHECKING, Any

from audits.core.records import Coverage

if TYPE_CHECKING:
    from audits.lipschitz.measure import Counts


def coverage(counts: "Counts") -> Coverage:
    """Return how many images, or without images layers, were used: all."""
    count = len(counts.answers) or len(counts.bound.layers)
    return Coverage(given=count, used=count)


def records(counts: "Counts") -> list[dict[str, Any]]:
    """Return a row for each image, or without images for each layer."""
    return _images(counts) if counts.answers else _layers(counts)


def _images(counts: "Counts") -> list[dict[str, Any]]:
    return [
        {
            "idx": index,
            "label": answer.label,
            "predict": answer.predict,
            "margin": answer.margin,
            "radius": answer.radius,
            "correct": int(answer.correct),
            "slope": answer.slope,
        }
        for index, answer in enumerate(counts.answers)
    ]


def _layers(counts: "Counts") -> list[dict[str, Any]]:
    return [
        {
            "layer": layer.name,
            "kind": layer.kind,
            "method": layer.method,
            "bound": layer.bound,
            "lower": "" if layer.lower is None else layer.lower,
            "height": layer.grid[0] if layer.grid else "",
            "width": layer.grid[1] if layer.grid else "",
            "stride": "x".join(map(str, layer.stride)) if layer.stride else "",
            "padding": ",".join(map(str, layer.padding)) if layer.padding else "",
        }
        for layer in counts.bound.layers
    ]
