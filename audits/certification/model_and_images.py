"""The model and the images that certificates are drawn from: loaded, tried together, and described."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from audits.certification import ARCHITECTURES, Options
from audits.certification.rules import asserted
from audits.core.context import Context
from audits.core.options import numbers
from probes.classifiers.class_maps import WORDNET, ClassMap, read_class_map
from probes.classifiers.classifier_files import Classifier, check_classifier, load_classifier
from probes.classifiers.image_readers import ImageSource
from probes.classifiers.images import Images, load_images
from probes.classifiers.resizing import has_processor, resizing_of
from probes.core.errors import InputError
from probes.core.executor import one_thread
from probes.core.progress import Progress
from probes.files.images import Resizing
from probes.files.several_refusals import SHOWN, several

if TYPE_CHECKING:
    import torch

FEW = 8
CHECKS = "classifier-checks"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    """What `load_classifier` needs to load a model, here or in a worker."""

    path: str
    arch: str | None
    factory: str | None
    allow_code: bool
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, options: Options) -> "ModelSource":
        """Return what the options say."""
        return cls(
            path=str(options.model),
            arch=options.arch,
            factory=options.factory,
            allow_code=options.allow_code,
            mean=numbers("--mean", options.mean),
            std=numbers("--std", options.std),
        )

    def elsewhere(self) -> "ModelSource":
        """Return the same for a process whose current folder is another."""
        return replace(self, path=str(Path(self.path).expanduser().absolute()))

    def load(self) -> Classifier:
        """Load the model.

        Raises
        ------
        InputError
            Where it cannot be loaded.
        """
        return load_classifier(
            self.path,
            arch=self.arch,
            factory=self.factory,
            allow_code=self.allow_code,
            mean=self.mean,
            std=self.std,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A model and images to draw from.

    Parameters
    ----------
    model, source
        How a worker loads both.
    chosen
        Numbers of the images that are certified, ascending.
    check
        Key of the model's check in the cache.
    seconds
        What one forward pass of one image took in that check.
    fingerprint
        Hash of the logits of a few images, for models whose code is not ours; else empty.
    """

    model: ModelSource
    source: ImageSource
    classifier: Classifier
    images: Images
    chosen: tuple[int, ...]
    classes: int
    check: object
    seconds: float
    fingerprint: str = ""
    class_map: ClassMap | None = None


def find_work(options: Options, context: Context) -> Work:
    """Load the model and the images, and try the model on a few of them.

    Raises
    ------
    InputError
        Where one cannot be loaded, or the two do not fit together.
    """
    model = ModelSource.of(options)
    classifier = model.load()
    images, source, class_map = _images(options, classifier, context.progress)
    chosen = tuple(range(0, len(images), options.skip))[: options.max]
    classes, seconds, key = _checked(classifier, images, chosen, class_map, context)
    own = images.class_names and images.class_names != classifier.class_names
    if own and class_map is None and len(images.class_names) != classes:
        wordnet = "their WordNet ids" if all(WORDNET.fullmatch(name) for name in images.class_names) else "them"
        raise InputError(
            f"The folder has {len(images.class_names)} classes, the model {classes} outputs: which is which?",
            where=images.path,
            hint="Name the folders by the numbers of the outputs, from 0, or as the model names its classes; or give "
            f"--class-map FILE, which says it of {wordnet}.",
        )
    return Work(
        model=model,
        source=source,
        classifier=classifier,
        images=images,
        chosen=chosen,
        classes=classes,
        check=key,
        seconds=seconds,
        fingerprint=_fingerprint(classifier, images, chosen),
        class_map=class_map,
    )


def _images(
    options: Options, classifier: Classifier, progress: Progress
) -> tuple[Images, ImageSource, ClassMap | None]:
    assert options.data is not None
    class_map = read_class_map(options.class_map) if options.class_map is not None else None
    # A Hugging Face folder says the size that its processor brings every picture to.
    resize: bool | Resizing = Path(str(options.model)).is_dir()
    if options.resize is not None:
        resize = resizing_of(
            options.resize, options.crop, reference=str(options.model), arch=options.arch, shape=classifier.shape
        )
    images = load_images(
        options.data,
        layout=options.layout,
        by=options.by,
        attributes=options.attributes,
        shape=classifier.shape,
        class_names=classifier.class_names,
        resize=resize,
        taken=slice(0, None if options.max is None else options.max * options.skip, options.skip),
        decoding=progress,
        class_map=class_map,
        processor=has_processor(str(options.model), options.arch),
    )
    return images, ImageSource.of(images, layout=options.layout, resize=resize), class_map


def decode(images: Images, chosen: Sequence[int], progress: Progress) -> tuple[tuple[str, str], ...]:
    """Decode all images that are certified, and return their number, for the plan.

    Raises
    ------
    InputError
        Where some of them cannot be decoded, with the first of these.
    """
    bad: list[tuple[str, InputError]] = []
    with progress.phase("Decoding images", len(chosen), "images") as advance:
        for index in chosen:
            try:
                images.read(index)
            except InputError as error:
                bad.append((images.names[index], error))
            advance(1)
    if bad:
        raise several(bad[:SHOWN], len(bad), given=len(chosen), what="images", where=images.path)
    return (("decoded", f"{len(chosen):,} image{'s' * (len(chosen) > 1)}, without an error"),)


def _first_few(images: Images, chosen: Sequence[int], context: Context) -> "torch.Tensor":
    """Return the images on which the model is tried; where one is broken, all broken ones are reported."""
    import torch

    try:
        return torch.stack([torch.from_numpy(images.pixels(index)) for index in chosen[:FEW]])
    except InputError:
        decode(images, chosen, context.progress)
        raise


def _checked(
    classifier: Classifier, images: Images, chosen: tuple[int, ...], class_map: ClassMap | None, context: Context
) -> tuple[int, float, object]:
    """Return classes and seconds a forward pass, from the cache where this model was checked before."""
    device, dtype = ("cpu", "float32") if elsewhere(context) else (context.device, context.dtype)
    key = [classifier.sha256, images.sha256, list(chosen[:FEW]), device, dtype]
    labels = [int(images.labels[index]) for index in chosen]
    stored = context.cache.read(CHECKS, key)
    # Labels are not in the key: one beyond the outputs needs the whole check, which refuses it.
    if stored is not None and max(labels) < int(stored["classes"]):
        return int(stored["classes"]), float(stored["seconds"]), key
    few = _first_few(images, chosen, context)
    check = check_classifier(classifier, few, labels=labels, device=device, dtype=dtype, class_map=class_map)
    return check.classes, check.seconds, key


def elsewhere(context: Context) -> bool:
    """Tell whether workers run the model on GPUs, so that this process leaves these alone."""
    return context.device != "cpu" and not context.machines.workers.here


def _fingerprint(classifier: Classifier, images: Images, chosen: Sequence[int]) -> str:
    """Return a hash of the outputs of a model of foreign code, whose weights alone do not say what it computes."""
    if classifier.family in ARCHITECTURES:
        return ""
    import torch

    few = torch.stack([torch.from_numpy(images.pixels(index)) for index in chosen[:FEW]])
    # The seed is fixed: the fingerprint is of the network and must not change with --seed.
    noisy = few + 0.25 * torch.randn(few.shape, generator=torch.Generator().manual_seed(0))
    # With one thread, as it is run: sums depend on their number, and the parts of an array must agree.
    with one_thread(), torch.inference_mode():
        logits = classifier.module(torch.cat([few, noisy]))
    return hashlib.sha256(logits.float().numpy().tobytes()).hexdigest()


def lipschitz_of(options: Options, work: Work, dtype: str) -> float | None:
    """Return the Lipschitz constant of each soft output, as given or computed; None where votes are certified.

    Raises
    ------
    InputError
        Where none holds, or the one asserted is none.
    """
    if options.lipschitz is None:
        return None
    if dtype != "float32":
        raise InputError(
            f"In {dtype} the outputs jump from one number to the next, so that no Lipschitz constant holds.",
            where="--dtype with --lipschitz",
            hint="Use --dtype float32.",
        )
    if options.lipschitz != "computed":
        return asserted(options.lipschitz)
    from probes.classifiers.lipschitz_bound import lipschitz_bound, softmax_bound

    # With one thread: the parts of an array, on machines of different size, must agree on when a radius is proved.
    with one_thread():
        bound = softmax_bound(lipschitz_bound(work.classifier.module, work.images.shape, lower_steps=0).product)
    if not bound > 0:
        raise InputError(
            "The network is constant: its Lipschitz bound is 0.",
            where=work.classifier.reference,
            hint="Leave --lipschitz out, or give a trained network.",
        )
    return bound


def batch_of(options: Options) -> int:
    """Return the batch size that was asked for, 0 for auto."""
    if options.batch == "auto":
        return 0
    if not options.batch.isdecimal() or not 0 < int(options.batch) <= 1 << 20:
        raise InputError(f"{options.batch!r} is no batch size.", where="--batch", hint="auto, or a number from 1 on.")
    return int(options.batch)


def described(images: Images) -> tuple[str, str]:
    """Return range and layout of the images, in words."""
    low, high = images.stored
    channels, height, width = images.shape
    scaled = "as they are" if images.divisor == 1 else f"divided by {images.divisor:g}"
    return (
        f"{len(images)} images of {channels} x {height} x {width} ({images.layout}), stored from {low:g} to {high:g}, "
        f"taken {scaled}.",
        "sigma and all radii are in units of pixels in [0, 1]: multiply by 255 for grey levels.",
    )
