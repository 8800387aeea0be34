"""Noise around images, a function of seed, image, stream and block alone.

Any block of draws can be made again alone, so that counts do not depend on batch size, order, interruption or on who
else is at work, and no two blocks share their noise.
"""

import hashlib
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from torch import Tensor

Stream = Literal["selection", "pilot", "estimation", "attack"]
STREAMS: tuple[Stream, ...] = ("selection", "pilot", "estimation")
"""Streams whose draws are counted; those of an attack only point a way."""

BLOCK = 16
"""Draws whose noise is made together; batches are whole blocks."""
_WORDS = 624
_HEAD = 24
"""Offsets of the words of the Mersenne Twister in the state of a CPU generator of torch, each in 8 bytes."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise in pixel units: Gaussian with standard deviation `scale`, or uniform on [-scale, scale]."""

    kind: Literal["gaussian", "uniform"]
    scale: float

    def fill(self, values: "Tensor", generator: Any) -> None:
        """Overwrite a tensor with fresh noise."""
        if self.kind == "gaussian":
            values.normal_(0.0, self.scale, generator=generator)
        else:
            values.uniform_(-self.scale, self.scale, generator=generator)


def start_block(generator: Any, seed: int, index: int, stream: Stream, block: int) -> None:
    """Set a generator to the start of one block of draws.

    On the CPU `manual_seed` keeps 32 bits of a seed only, so that among the blocks of a long run some would be equal.
    All 19,968 bits of the Mersenne Twister's state are set instead, from a hash; a GPU's generator takes 64 bits.
    """
    text = f"{seed} {index} {stream} {block}".encode()
    if generator.device.type == "cpu":
        generator.set_state(_state(hashlib.shake_256(text).digest(4 * _WORDS)))
    else:
        generator.manual_seed(int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1)


def _state(words: bytes) -> "Tensor":
    import numpy as np
    import torch

    state = _blank().copy()
    state[_HEAD : _HEAD + 8 * _WORDS].view("<u8")[:] = np.frombuffer(words, "<u4")
    return torch.from_numpy(state)


@cache
def _blank() -> Any:
    """Return the state of a fresh CPU generator, after checking its layout.

    Raises
    ------
    RuntimeError
        Where this version of torch keeps its state otherwise.
    """
    import numpy as np
    import torch

    state = torch.Generator().manual_seed(5489).get_state().numpy()
    words = state[_HEAD : _HEAD + 8 * _WORDS].view("<u8")
    # The first two words that the Twister makes of this seed: the seed, and 1812433253 (s ^ s >> 30) + 1.
    second = (1812433253 * (5489 ^ (5489 >> 30)) + 1) % 2**32
    if words[0] != 5489 or words[1] != second or words.max() >= 2**32 or np.any(state[_HEAD + 8 * _WORDS :]):
        raise RuntimeError(f"torch {torch.__version__} keeps the state of its generators in an unknown way")
    return state
