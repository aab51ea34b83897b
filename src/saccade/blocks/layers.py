"""A layer of self-attention: what the Transformer's encoder, BERT and GPT are stacks of."""

from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor, nn

from saccade.blocks.attention import SelfAttention
from saccade.blocks.caches import KeyValueCache, LayerCache
from saccade.blocks.feedforward import FeedForward
from saccade.blocks.norms import Placement
from saccade.blocks.swift import SelfStep, around, self_step, swift


class SelfAttentionLayer(nn.Module):
    """Self-attention, then feed-forward; each in its residual connection (Vaswani et al. 3.1)."""

    def __init__(
        self, attention: SelfAttention, ffn: FeedForward, residual: Callable[[], Placement]
    ):
        super().__init__()
        self.attention = attention
        self.ffn = ffn
        self.around_attention = residual()
        self.around_ffn = residual()

    def forward(
        self, x: Float[Tensor, "B T D"], mask: Bool[Tensor, "#B 1 #T T"] | None
    ) -> Float[Tensor, "B T D"]:
        x = self.around_attention(x, lambda h: self.attention(h, mask))
        return self.around_ffn(x, self.ffn)

    def extend(
        self,
        x: Float[Tensor, "N T D"],
        number: int,
        past: KeyValueCache,
        mask: Bool[Tensor, "#N 1 #T L"] | None,
    ) -> Float[Tensor, "N T D"]:
        """The same for T more tokens, with what was read before in a cache."""
        x = self.around_attention(x, lambda h: past.attend(number, self.attention, h, mask))
        return self.around_ffn(x, self.ffn)

    def swift(self) -> SelfStep:
        """`extend` for one token a row, by plain functions."""
        attend, ffn = self_step(self.attention), swift(self.ffn)
        around_attention, around_ffn = around(self.around_attention), around(self.around_ffn)

        def step(x: Tensor, cache: LayerCache, mask: Tensor | None) -> Tensor:
            x = around_attention(x, lambda h: attend(h, cache, mask))
            return around_ffn(x, ffn)

        return step
