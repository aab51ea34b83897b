"""What followed what, and how often: sparse rows of counts, for models that count."""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.errors import InputError

LARGEST = np.iinfo(np.int64).max


class Successors(nn.Module):
    """The tokens that followed each context, with their counts; contexts are sorted int64 keys.

    Row i, of the context `keys[i]`, is `tokens[starts[i]:starts[i + 1]]`, in order. What a key
    stands for is the owner's. Tables grow when they are counted or loaded.
    """

    keys: Int[Tensor, " C"]
    starts: Int[Tensor, " C1"]
    tokens: Int[Tensor, " G"]
    counts: Int[Tensor, " G"]

    def __init__(self, vocab_size: int):
        super().__init__()
        self.vocab_size = vocab_size
        self.register_buffer("keys", torch.zeros(0, dtype=torch.int64))
        self.register_buffer("starts", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("tokens", torch.zeros(0, dtype=torch.int32))
        self.register_buffer("counts", torch.zeros(0, dtype=torch.int32))
        self.register_load_state_dict_pre_hook(make_room)
        self.register_load_state_dict_post_hook(_refuse_damaged)

    def count(self, keys: Int[np.ndarray, " T"], tokens: Int[np.ndarray, " T"]) -> None:
        """Fill the table from observations: this token after that context."""
        if len(keys) and int(keys.max()) > (LARGEST - self.vocab_size) // self.vocab_size:
            raise InputError(
                f"{len(keys):,} tokens of a vocabulary of {self.vocab_size:,} are too many to "
                "count: lower the order, or take a smaller vocabulary"
            )
        self.fill(*np.unique(keys * self.vocab_size + tokens, return_counts=True))

    def fill(self, grams: Int[np.ndarray, " G"], counts: Int[np.ndarray, " G"]) -> None:
        """Take over counts of sorted grams, `key * vocab_size + token`."""
        keys, starts = np.unique(grams // self.vocab_size, return_index=True)
        device = self.keys.device
        self.keys = torch.from_numpy(keys).to(device)
        self.starts = torch.from_numpy(np.append(starts, len(grams))).to(device)
        self.tokens = torch.from_numpy((grams % self.vocab_size).astype(np.int32)).to(device)
        self.counts = torch.from_numpy(counts.astype(np.int32)).to(device)

    @property
    def grams(self) -> Int[np.ndarray, " G"]:
        """All `key * vocab_size + token`, sorted."""
        keys = np.repeat(self.keys.cpu().numpy(), np.diff(self.starts.cpu().numpy()))
        return keys * self.vocab_size + self.tokens.cpu().numpy()

    @property
    def totals(self) -> Int[np.ndarray, " C"]:
        """How often each context was followed by anything."""
        if not len(self.keys):
            return np.zeros(0, np.int64)
        counts = self.counts.cpu().numpy().astype(np.int64)
        return np.add.reduceat(counts, self.starts[:-1].cpu().numpy())

    def find(self, keys: Int[Tensor, " R"]) -> Int[Tensor, " R"]:
        """The row of each key, -1 for a context that was never followed by anything."""
        if not len(self.keys):
            return torch.full_like(keys, -1)
        place = torch.searchsorted(self.keys, keys).clamp(max=len(self.keys) - 1)
        return torch.where(self.keys[place] == keys, place, -1)

    def entries(
        self, ids: Int[Tensor, " R"]
    ) -> tuple[Int[Tensor, " E"], Int[Tensor, " E"], Int[Tensor, " E"]]:
        """All entries of these rows: which of the R they belong to, their tokens, their counts."""
        owners = (ids >= 0).nonzero().squeeze(1)
        first = self.starts[ids[owners]]
        lengths = self.starts[ids[owners] + 1] - first
        before = lengths.cumsum(0) - lengths
        total = int(lengths.sum())
        place = torch.arange(total, device=ids.device)
        place = place + (first - before).repeat_interleave(lengths, output_size=total)
        owners = owners.repeat_interleave(lengths, output_size=total)
        return owners, self.tokens[place].long(), self.counts[place].long()

    def shares(
        self, ids: Int[Tensor, " R"], discounts: Float[Tensor, "3"]
    ) -> tuple[Int[Tensor, " E"], Int[Tensor, " E"], Float[Tensor, " E"], Float[Tensor, " R"]]:
        """The entries as shares of their row, discounted, and what is left of each row for others.

        (c - D_c) / total, where D_c is for counts of 1, 2 and 3 or more; unknown rows leave 1.
        """
        owners, tokens, counts = self.entries(ids)
        taken = discounts[counts.clamp(max=3) - 1]
        total = torch.zeros(len(ids), dtype=taken.dtype, device=ids.device)
        left = total.index_add(0, owners, taken)
        total = total.index_add(0, owners, counts.to(taken.dtype))
        left = torch.where(ids >= 0, left / total.clamp(min=1), 1.0)
        return owners, tokens, (counts - taken) / total[owners], left


def make_room(module: nn.Module, state: dict[str, Tensor], prefix: str, *_rest: object) -> None:
    """Before loading: buffers of the sizes that come, since a fresh table is empty."""
    for name, buffer in list(module.named_buffers(recurse=False)):
        coming = state.get(prefix + name)
        if coming is not None and coming.ndim == buffer.ndim:
            setattr(module, name, buffer.new_empty(coming.shape))


def _refuse_damaged(table: Successors, _incompatible: object) -> None:
    """After loading: a table that does not fit together would answer with nonsense."""
    lengths = table.starts.diff()
    sound = (
        len(table.starts) == len(table.keys) + 1
        and len(table.tokens) == len(table.counts) == int(table.starts[-1])
        and int(table.starts[0]) == 0
        and bool((lengths > 0).all())
        and bool((table.keys.diff() > 0).all())
        and bool(((table.tokens >= 0) & (table.tokens < table.vocab_size)).all())
        and bool((table.counts > 0).all())
    )
    if not sound:
        raise InputError("the counts do not fit together: the file of the model is damaged")
