"""What opens each kind of model and of field, as the audits do."""

from pathlib import Path

import torch


def read_fields(path: Path) -> None:
    from probes.operators.fields import load_fields

    found = load_fields(path, dimensions=2, fields=(1, 3), outputs=1)
    found.check_finite(8)
    found.read(0, 8)


def read_fields_of_names(path: Path) -> None:
    from probes.operators.fields import load_fields

    found = load_fields(path, input_key="x", target_key="y", dimensions=2, fields=(1, 3), outputs=1)
    found.check_finite(8)


def speech(path: Path) -> None:
    from probes.models.checkpoints import find_model
    from probes.speech.activations import SpeechEncoder, check_family
    from probes.speech.frames import check_config

    folder = find_model(str(path))
    check_family(folder)
    check_config(folder)
    SpeechEncoder(folder, device="cpu", dtype="float32").encode([torch.zeros(4000)])


def text_encoder(path: Path) -> None:
    from probes.texts.text_embeddings import TextEncoder
    from probes.texts.text_encoders import find_text_encoder

    TextEncoder(find_text_encoder(str(path)), reference=(), device="cpu", dtype="float32").encode(["w1 w2 w3"])


def causal(path: Path) -> None:
    from probes.models.checkpoints import find_model
    from probes.texts.text_generation import CausalLM, check_causal

    folder = find_model(str(path))
    check_causal(folder, ["w1 w2"], 2)
    CausalLM(folder, device="cpu", dtype="float32")


def masked(path: Path) -> None:
    from probes.language_models.masked_models import read_masked_model

    read_masked_model(path)


def classifier(path: Path) -> None:
    from probes.classifiers.classifier_files import load_classifier

    load_classifier(str(path), arch=None if path.is_dir() else "small_cnn")


def read_operator(path: Path) -> None:
    from probes.operators.fno.reading import load_operator

    load_operator(path)


def read_denoiser(path: Path) -> None:
    from probes.generators.denoisers import load_denoiser

    load_denoiser(path, schedule=None if path.is_dir() else "linear", shape=(1, 4, 4))


def read_generator(path: Path) -> None:
    from probes.generators.generator_files import load_generator

    load_generator(path, arch="mlp-generator", shape=(1, 4, 4))


def read_discriminator(path: Path) -> None:
    from probes.generators.generator_files import load_discriminator

    load_discriminator(path, arch="mlp-discriminator", shape=(1, 4, 4))
