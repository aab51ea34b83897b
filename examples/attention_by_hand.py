"""Attention by hand: the numbers that lectures show for "Thinking Machines".

The query of "Thinking" scores 112 with its own key and 96 with the key of "Machines".
"""

import math

import torch

from saccade.blocks.masks import masked_softmax
from saccade.blocks.scores import ScaledDot

WORDS = ["Thinking", "Machines"]
WIDTH = 64  # of a head

# One query and two keys whose products are 112 and 96.
query = torch.ones(1, WIDTH)
keys = torch.tensor([[112.0], [96.0]]) / WIDTH * torch.ones(2, WIDTH)
values = torch.tensor([[1.0, 0.0, 2.0], [0.0, 4.0, 1.0]])

scores = query @ keys.mT
scaled = ScaledDot(WIDTH, WIDTH)(query, keys)
weights = masked_softmax(scaled)
result = weights @ values

print("words           ", *WORDS)
print("scores          ", *scores[0].tolist())
print(f"divided by {math.sqrt(WIDTH):.0f}    ", *scaled[0].tolist())
print("softmax         ", *(f"{weight:.2f}" for weight in weights[0].tolist()))
print("weighted sum    ", *(f"{number:.2f}" for number in result[0].tolist()))
