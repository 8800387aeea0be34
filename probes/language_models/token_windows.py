"""Windows of equal length cut from tokenized text, and the choice of tokens to hide in them.

Sentences stand one after the other with a separator after each; the stream is cut into windows, so that nothing is
padded. In held-out windows every token knows its sentence, since sentences are what intervals are made over.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Windows:
    """A text cut into windows.

    Parameters
    ----------
    ids, sentence
        Token and number of its sentence, int32, shape (windows, length).
    sentences
        Sentences of the text; the last of them may lie behind the last whole window.
    tokens, bytes
        Size of the windowed text: tokens, and the bytes of UTF-8 that they encode.
    """

    ids: Tensor
    sentence: Tensor
    sentences: int
    tokens: int
    bytes: float

    def __len__(self) -> int:
        return len(self.ids)


def cut_windows(encoded: Sequence[Ints], sizes: Sequence[int], *, separator: int, length: int) -> Windows:
    """Cut sentences, as ids, into windows; an incomplete last window is left out.

    Parameters
    ----------
    encoded, sizes
        Ids of each sentence, and its bytes; the separator after it counts as one byte more, the end of its line.

    Examples
    --------
    >>> made = cut_windows([np.array([1, 2, 3]), np.array([4])], [3, 1], separator=0, length=3)
    >>> made.ids.tolist(), made.sentence.tolist(), made.bytes
    ([[1, 2, 3], [0, 4, 0]], [[0, 0, 0], [0, 1, 1]], 6.0)
    """
    lengths = np.array([len(ids) + 1 for ids in encoded], dtype=np.int64)
    ends = lengths.cumsum()
    stream = np.full(int(ends[-1]) if len(ends) else 0, separator, dtype=np.int32)
    inside = np.ones(len(stream), dtype=bool)
    inside[ends - 1] = False
    stream[inside] = np.concatenate(encoded) if encoded else stream
    sentence = np.repeat(np.arange(len(encoded), dtype=np.int32), lengths)
    kept = len(stream) // length * length
    # A sentence cut in two counts with the share of its bytes that is kept.
    share = np.bincount(sentence[:kept], minlength=len(encoded)) / lengths
    return Windows(
        ids=torch.from_numpy(stream[:kept].reshape(-1, length)),
        sentence=torch.from_numpy(sentence[:kept].reshape(-1, length)),
        sentences=len(encoded),
        tokens=kept,
        bytes=float((share * (np.asarray(sizes) + 1)).sum()),
    )


def masked_positions(windows: int, length: int, share: float, generator: torch.Generator, draws: int = 1) -> Tensor:
    """Draw positions to hide, int64, shape (draws, windows, count): as many in every window, no two draws alike.

    Raises
    ------
    ValueError
        Where the draws together would need more positions than a window has.

    Examples
    --------
    >>> drawn = masked_positions(2, 10, 0.2, torch.Generator().manual_seed(0), draws=5)
    >>> drawn.shape, [len(set(row)) for row in drawn.permute(1, 0, 2).reshape(2, 10).tolist()]
    (torch.Size([5, 2, 2]), [10, 10])
    """
    count = max(1, round(share * length))
    if count * draws > length:
        raise ValueError(f"{draws} draws of {count} positions do not fit in {length}")
    order = torch.rand(windows, length, generator=generator).argsort(1)
    return order[:, : count * draws].reshape(windows, draws, count).permute(1, 0, 2).contiguous()


def hide_tokens(ids: Tensor, positions: Tensor, mask: int) -> tuple[Tensor, Tensor]:
    """Return the ids with the mask at the positions, and the original ids there; all int64.

    Examples
    --------
    >>> hide_tokens(torch.tensor([[5, 6, 7]]), torch.tensor([[2, 0]]), 9)
    (tensor([[9, 6, 9]]), tensor([[7, 5]]))
    """
    ids = ids.long()
    return ids.scatter(1, positions, mask), ids.gather(1, positions)
