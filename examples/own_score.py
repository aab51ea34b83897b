r"""A score of your own: how well does a query match a key? Here: minus their city-block distance.

Run this file to see it inside multi-head attention. To train a translator with it:

    saccade train translate --train en.txt fr.txt --out runs/mine \
        --set model.score=examples/own_score.py:CityBlock --allow-code
"""

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.blocks.attention import Parts, SelfAttention
from saccade.blocks.recording import record_attention
from saccade.blocks.scores import Score


class CityBlock(Score):
    """-|q - k|_1 / sqrt(K): near vectors look at each other."""

    def forward(
        self, query: Float[Tensor, "*B T K"], keys: Float[Tensor, "*B S K"]
    ) -> Float[Tensor, "*B T S"]:
        return -torch.cdist(query, keys, p=1.0) / self.query_dim**0.5


def main() -> None:
    words = ["the", "cat", "sat", "on", "the", "mat"]
    torch.manual_seed(1)  # the same untrained weights every time
    vectors = {word: torch.randn(32) for word in dict.fromkeys(words)}
    sentence = torch.stack([vectors[word] for word in words]).unsqueeze(0)  # (1, T, D)

    attention = SelfAttention(dim=32, heads=4, parts=Parts(score=CityBlock))
    with record_attention(attention) as seen, torch.no_grad():
        attention(sentence)
    ((weights,),) = seen.values()  # one layer, called once: (B, H, T, S)

    print("what each word looks at, mean of 4 heads\n")
    print(" " * 6, *(f"{word:>5}" for word in words))
    for word, row in zip(words, weights[0].mean(dim=0), strict=True):
        print(f"{word:>6}", *(f"{weight:5.2f}" for weight in row.tolist()))


if __name__ == "__main__":
    main()
