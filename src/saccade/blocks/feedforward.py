"""The network applied at every position alike."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.blocks.activations import Activation
from saccade.blocks.dropout import Dropout
from saccade.blocks.products import Linear


class FeedForward(nn.Module):
    """Vaswani et al. 2017, eq. 2:  W2 relu(W1 x + b1) + b2."""

    def __init__(
        self,
        dim: int,
        ffn_dim: int | None = None,  # 4 times dim, as in most papers
        activation: Activation = torch.relu,
        dropout: float = 0.0,
        output_bias: bool = True,
        input_bias: bool = True,
    ):
        super().__init__()
        ffn_dim = 4 * dim if ffn_dim is None else ffn_dim
        self.expand = Linear(dim, ffn_dim, bias=input_bias)
        self.activation = activation
        self.dropout = Dropout(dropout)
        self.contract = Linear(ffn_dim, dim, bias=output_bias)

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        return self.contract(self.dropout(self.activation(self.expand(x))))
