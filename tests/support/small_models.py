"""Small files and folders of models and of fields, one of every kind that can be opened; nothing in them is trained."""

import io
import json
import pickle
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch


def cnn() -> dict[str, Any]:
    from probes.classifiers.classifier_networks import small_cnn

    return small_cnn((1, 8, 8), 3, width=4).state_dict()


def operator() -> dict[str, Any]:
    from probes.operators.darcy_operator import fresh_operator, li_state

    return li_state(fresh_operator(4, 2, 2, 0))


def denoiser() -> dict[str, Any]:
    from probes.generators.generative_networks import fresh_denoiser

    return fresh_denoiser((1, 4, 4), hidden=16, layers=1, seed=0).state_dict()


def gan(part: int) -> dict[str, Any]:
    from probes.generators.generative_networks import fresh_gan

    return fresh_gan((1, 4, 4), latent=4, hidden=16, seed=0)[part].state_dict()


def neuralop() -> dict[str, Any]:
    """Return a network of two blocks in the names of release 0.3 of the library."""
    stream = torch.Generator().manual_seed(0)
    sizes = {
        "lifting.fcs.0.weight": (6, 3, 1, 1), "lifting.fcs.0.bias": (6,), "lifting.fcs.1.weight": (4, 6, 1, 1),
        "lifting.fcs.1.bias": (4,), "projection.fcs.0.weight": (6, 4, 1, 1), "projection.fcs.0.bias": (6,),
        "projection.fcs.1.weight": (1, 6, 1, 1), "projection.fcs.1.bias": (1,), "fno_blocks.convs.bias": (2, 4, 1, 1),
    }  # fmt: skip
    for place in range(2):
        sizes[f"fno_blocks.convs.weight.{place}.tensor"] = (4, 4, 4, 3, 2)
        sizes[f"fno_blocks.fno_skips.{place}.weight"] = (4, 4, 1, 1)
    return {name: torch.randn(size, generator=stream) for name, size in sizes.items()}


def mdlus(folder: Path, *, tar: bool) -> Path:
    """Write an archive of PhysicsNeMo with a network of one block."""
    path = folder / "m.mdlus"
    args = {"in_channels": 1, "out_channels": 1, "latent_channels": 4, "num_fno_layers": 1, "num_fno_modes": 2,
            "decoder_layer_size": 3, "padding": 2}  # fmt: skip
    sizes = {
        "spec_encoder.lift_network.0.conv": (2, 3, 1, 1), "spec_encoder.lift_network.2.conv": (4, 2, 1, 1),
        "spec_encoder.conv_layers.0": (4, 4, 1, 1), "decoder_net.layers.0.linear": (3, 4),
        "decoder_net.final_layer.linear": (1, 3),
    }  # fmt: skip
    tensors = {f"{name}.weight": torch.ones(size) for name, size in sizes.items()}
    tensors |= {f"{name}.bias": torch.ones(size[0]) for name, size in sizes.items()}
    tensors |= {f"spec_encoder.spconv_layers.0.weights{corner}": torch.ones(4, 4, 2, 2, 2) for corner in (1, 2)}
    model = io.BytesIO()
    torch.save(tensors, model)
    files = {
        "args.json": json.dumps({"__name__": "FNO", "__module__": "physicsnemo.models.fno.fno", "__args__": args}),
        "metadata.json": json.dumps({"physicsnemo_version": "1.0.0", "mdlus_file_version": "0.1.0"}),
    }
    parts = {name: text.encode() for name, text in files.items()} | {"model.pt": model.getvalue()}
    if tar:
        with tarfile.open(path, "w") as archive:
            for name, data in parts.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in parts.items():
                # Without the time of day, which would make every run another.
                archive.writestr(zipfile.ZipInfo(name), data)
    return path


def saved(tensors: Callable[[], dict[str, Any]], name: str, *, zipped: bool = True) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        write(folder / name, tensors(), zipped=zipped)
        return folder / name

    return make


def write(path: Path, content: Any, *, zipped: bool = True) -> None:
    if path.suffix == ".safetensors":
        from safetensors.torch import save_file

        save_file({name: value.contiguous().clone() for name, value in content.items()}, path)
    elif zipped:
        torch.save(content, path)
    else:
        path.write_bytes(legacy(content))


def legacy(content: Any) -> bytes:
    """Return what torch.save wrote before it wrote zips, with storages that are named in their order.

    torch would name them by their places in memory, which differ from run to run.
    """
    target, storages = io.BytesIO(), dict[int, tuple[str, Any]]()

    class Pickler(pickle.Pickler):
        def persistent_id(self, value: Any) -> Any:
            """Return what stands for a storage in the pickle."""
            if not isinstance(value, torch.storage.TypedStorage):
                return None
            storage = value._untyped_storage
            name = storages.setdefault(storage._cdata, (str(len(storages)), value))[0]
            return ("storage", getattr(torch, value._pickle_storage_type()), name, "cpu", value._size(), None)

    for part in (0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": {}}):
        pickle.dump(part, target, protocol=2)
    Pickler(target, protocol=2).dump(content)
    pickle.dump([name for name, _ in storages.values()], target, protocol=2)
    for _, value in storages.values():
        target.write(value._size().to_bytes(8, "little"))
        target.write(bytes(value._untyped_storage))
    return target.getvalue()


def fields(folder: Path, form: str) -> Path:
    x, y = np.arange(3 * 36, dtype=np.float32).reshape(3, 6, 6) / 100, np.ones((3, 6, 6), np.float32)
    path = folder / f"fields.{form.partition('-')[0]}"
    if form == "h5" or form == "h5-chunked":
        import h5py

        with h5py.File(path, "w") as file:
            for name, values in (("x", x), ("y", y)):
                file.create_dataset(
                    name, data=values, **({"chunks": True, "compression": "gzip"} if "-" in form else {})
                )
    elif form.startswith("mat"):
        import scipy.io

        scipy.io.savemat(path, {"x": x, "y": y}, do_compression="-" in form)
        # The header tells when it was written.
        path.write_bytes(b"MATLAB 5.0 MAT-file".ljust(116) + path.read_bytes()[116:])
    elif form == "pt":
        torch.save({"x": torch.from_numpy(x), "y": torch.from_numpy(y)}, path)
    else:
        (np.savez_compressed if "-" in form else np.savez)(path, x=x, y=y)
    return path


def tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    names = ["[PAD]", "[UNK]", "</s>", "[CLS]", "[SEP]", "[MASK]", *(f"w{place}" for place in range(34))]
    rules = Tokenizer(models.WordLevel({name: place for place, name in enumerate(names)}, unk_token="[UNK]"))
    rules.pre_tokenizer = pre_tokenizers.Whitespace()
    rules.save(str(folder / "tokenizer.json"))


def hub(kind: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        from probes.core.library_imports import transformers

        hub, small = transformers(), {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        small |= {"intermediate_size": 16}
        place = folder / "model"
        if kind == "speech":
            import small_world

            small_world._encoder(place)
        elif kind == "images":
            config = hub.ViTConfig(**small, image_size=8, patch_size=4, num_labels=3, num_channels=1)
            hub.ViTForImageClassification(config).save_pretrained(place)
            (place / "preprocessor_config.json").write_text('{"image_mean": [0.5], "image_std": [0.5]}')
        elif kind == "masked":
            hub.BertForMaskedLM(hub.BertConfig(**small, vocab_size=40)).save_pretrained(place)
            tokenizer(place)
        else:
            config = hub.GPT2Config(n_embd=16, n_layer=1, n_head=2, n_positions=32, vocab_size=40)
            hub.GPT2LMHeadModel(config).save_pretrained(place)
            tokenizer(place)
            settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "</s>", "unk_token": "[UNK]"}
            (place / "tokenizer_config.json").write_text(json.dumps(settings))
        return place

    return make


def pipeline(folder: Path) -> Path:
    from probes.core.library_imports import transformers

    transformers()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import diffusers

        net = diffusers.UNet2DModel(
            sample_size=4, in_channels=1, out_channels=1, block_out_channels=(4, 8), layers_per_block=1,
            down_block_types=("DownBlock2D",) * 2, up_block_types=("UpBlock2D",) * 2, norm_num_groups=2,
        )  # fmt: skip
        diffusers.DDPMPipeline(net, diffusers.DDPMScheduler()).save_pretrained(folder / "model")
    return folder / "model"
