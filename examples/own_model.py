r"""A model of your own: a Transformer whose encoder sees no further than its neighbours.

Run this file to see what a word may look at. To train a translator with it, and to test it:

    saccade train translate --train en.txt fr.txt --out runs/near \
        --model examples/own_model.py:Neighbours --allow-code
    saccade check examples/own_model.py:Neighbours
"""

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.blocks.masks import combine, window_mask
from saccade.blocks.recording import record_attention
from saccade.blocks.sequences import Padded
from saccade.models.transformer import Transformer

NEAR = 1  # words to each side


class Neighbours(Transformer):
    """Local self-attention: position t of the source looks at t - 1, t and t + 1."""

    paper = "after Vaswani et al. 2017, section 4: self-attention restricted to a neighbourhood"

    def encode(self, source: Padded) -> Float[Tensor, "B S D"]:
        size = source.tokens.shape[1]
        x = self.dropout(self.source_embedding(source.tokens) + self.positions.first(size))
        near = window_mask(size, NEAR, NEAR, device=source.tokens.device)
        mask = combine(source.mask, near[None, None])
        for layer in self.encoder:
            x = layer(x, mask)
        return self.encoder_norm(x)


def main() -> None:
    words = ["the", "cat", "sat", "on", "the", "mat"]
    torch.manual_seed(1)  # the same untrained weights every time
    config = Neighbours.Config(source_vocab_size=9, target_vocab_size=9, dim=32, layers=1)
    model = Neighbours(config, joint=True).eval()
    ids = {word: number for number, word in enumerate(dict.fromkeys(words), start=4)}
    sentence = torch.tensor([[ids[word] for word in words]])

    with record_attention(model, model.source_layers) as seen, torch.no_grad():
        model.encode(Padded(sentence, torch.tensor([len(words)])))
    ((weights,),) = seen.values()  # one layer, called once: (B, H, T, S)

    print(f"what each word looks at, mean of {config.heads} heads\n")
    print(" " * 6, *(f"{word:>5}" for word in words))
    for word, row in zip(words, weights[0].mean(dim=0), strict=True):
        print(f"{word:>6}", *(f"{weight:5.2f}" if weight else "    ." for weight in row.tolist()))


if __name__ == "__main__":
    main()
