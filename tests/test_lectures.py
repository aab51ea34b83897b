"""The definitions and worked examples of the lectures that saccade covers so far, in order."""

import math

import pytest
import torch
from torch import nn

from saccade.blocks.attention import MultiHeadAttention, Parts, Widths, self_attention
from saccade.blocks.embeddings import TokenEmbedding
from saccade.blocks.masks import causal_mask, masked_softmax, padding_mask
from saccade.blocks.norms import PLACEMENTS
from saccade.blocks.positions import Circle, Index, Sinusoidal, SinusoidalHalves
from saccade.blocks.recording import record_attention
from saccade.blocks.scores import Dot, ScaledDot, batched_product
from saccade.blocks.sequences import Padded
from saccade.inspection.pictures import distributions, mask_picture, positions_picture
from saccade.models.transformer import Transformer, TransformerConfig
from saccade.training.optim import clip_scale


def test_thinking_machines_from_scores_to_the_output():
    """Scores 112 and 96, d_k = 64: divided by 8, softmax, weighted sum, eight heads, W^o."""
    attention = MultiHeadAttention(Widths.equal(512, heads=8), 8, Parts(bias=False))
    nn.init.eye_(attention.query.weight)
    nn.init.eye_(attention.key.weight)
    query, keys, words = torch.zeros(1, 1, 512), torch.zeros(1, 2, 512), torch.randn(1, 2, 512)
    query[..., ::64] = 8.0  # what "Thinking" asks, in every head ...
    keys[..., ::64] = torch.tensor([[14.0], [12.0]])  # ... and what the two words answer
    one_head = query[0, :, :64], keys[0, :, :64]
    assert Dot(64, 64)(*one_head).tolist() == [[112, 96]]
    assert ScaledDot(64, 64)(*one_head).tolist() == [[14, 12]]

    with record_attention(attention) as seen:
        output = attention(query, keys, words)
    (weights,) = seen[""]
    assert weights.shape == (1, 8, 1, 2)
    assert [[round(w, 2) for w in head] for head in weights[0, :, 0].tolist()] == [[0.88, 0.12]] * 8
    share = math.exp(14) / (math.exp(14) + math.exp(12))
    values = attention.value(words)[0].unflatten(-1, (8, 64))  # (S, H, K)
    sums = torch.cat([share * v[0] + (1 - share) * v[1] for v in values.unbind(1)])
    torch.testing.assert_close(output[0, 0], attention.output.weight @ sums)
    torch.testing.assert_close(attention(query, keys, words), output)  # by the kernel, unwatched


def test_masks_from_valid_lengths():
    """Dive into Deep Learning / Learn to code <blank> / Hello world <blank> <blank>."""
    mask = padding_mask(torch.tensor([4, 3, 2]), 4)
    assert mask.tolist() == [[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0]]
    weights = masked_softmax(torch.zeros(3, 1, 4), mask.unsqueeze(1))
    assert weights[2, 0].tolist() == [0.5, 0.5, 0, 0]


def test_batched_products_are_matrix_by_matrix():
    a, b = torch.randn(5, 2, 3), torch.randn(5, 3, 4)
    product = batched_product(a, b)
    assert product.shape == (5, 2, 4)
    torch.testing.assert_close(product, torch.stack([x @ y for x, y in zip(a, b, strict=True)]))


def test_self_attention_without_weights():
    x = torch.randn(4, 6)
    rows = []
    for i in range(4):
        alpha = torch.softmax(torch.stack([x[i] @ x[j] for j in range(4)]), dim=0)
        rows.append(sum(alpha[j] * x[j] for j in range(4)))
    torch.testing.assert_close(self_attention(x), torch.stack(rows))


def test_multi_head_attention_has_widths_of_its_own():
    widths = Widths(query=5, key=6, value=7, head=3, value_head=2, output=9)
    attention = MultiHeadAttention(widths, heads=4)
    out = attention(torch.randn(2, 8, 5), torch.randn(2, 10, 6), torch.randn(2, 10, 7))
    assert out.shape == (2, 8, 9)


def test_positions_of_twenty_words():
    table = Sinusoidal(512).first(20)
    for position, i in [(0, 0), (3, 7), (19, 255)]:
        angle = position / 10000 ** (2 * i / 512)
        assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
        assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)
    halves = SinusoidalHalves(512).first(20)
    torch.testing.assert_close(halves, torch.cat([table[:, 0::2], table[:, 1::2]], dim=1))
    assert Index(3).first(4)[:, 0].tolist() == [0, 1, 2, 3]
    assert Circle(2).first(2)[1].tolist() == pytest.approx([math.sin(1), math.cos(1)])


def test_i_love_transformers_of_width_ten():
    words = ["I", "love", "Transformers", "!", "I"]
    tokens = torch.tensor([sorted(set(words)).index(word) for word in words])
    embedded, positions = TokenEmbedding(4, 10)(tokens), Sinusoidal(10).first(5)
    sentence = embedded + positions
    assert sentence.shape == (5, 10)
    assert torch.equal(embedded[0], embedded[4])
    assert not torch.allclose(sentence[0], sentence[4])  # the same word at two places differs ...
    torch.testing.assert_close(sentence[4] - sentence[0], positions[4] - positions[0])  # by these


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("post", lambda norm, f, x: norm(x + f(x))),
        ("pre", lambda norm, f, x: x + f(norm(x))),
        ("output", lambda norm, f, x: x + norm(f(x))),
    ],
)
def test_three_placements_of_the_norm(name, formula):
    placement, sublayer, x = PLACEMENTS[name](6), nn.Linear(6, 6), torch.randn(2, 3, 6)
    torch.testing.assert_close(placement(x, sublayer), formula(placement.norm, sublayer, x))


def test_clipping():
    assert clip_scale(0.5, 1.0) == clip_scale(1.0, 1.0) == clip_scale(0.0, 1.0) == 1.0
    assert clip_scale(4.0, 1.0) == 0.25


def paper() -> Transformer:
    sizes = {"source_vocab_size": 37_000, "target_vocab_size": 37_000}
    with torch.device("meta"):
        return Transformer(
            TransformerConfig(**Transformer.PRESETS["base"]["model"], **sizes), joint=True
        )


def test_the_base_model_of_the_paper():
    """63 million weights, biases and norms included, with 37,000 subwords; the paper says 65."""
    model = paper()
    assert (len(model.encoder), len(model.decoder), model.config.heads) == (6, 6, 8)
    assert model.config.dim // model.config.heads == 64
    embedding = 37_000 * 512  # one for source, target and output
    attention, ffn, norm = 4 * (512 + 1) * 512, (512 + 1) * 2048 + (2048 + 1) * 512, 2 * 512
    encoder, decoder = attention + ffn + 2 * norm, 2 * attention + ffn + 3 * norm
    counted = sum(p.numel() for p in model.parameters())
    assert counted == embedding + 6 * (encoder + decoder) == 63_082_496
    assert model.config.placement == "post"
    assert model.config.activation == "relu"


def test_cross_attention_takes_keys_and_values_from_the_encoder():
    sizes = {"source_vocab_size": 20, "target_vocab_size": 20, "dim": 16, "ffn_dim": 16}
    model = Transformer(TransformerConfig(**sizes), joint=True).eval()
    lengths, target = torch.tensor([3]), torch.tensor([[1, 5, 6]])
    one = model(Padded(torch.tensor([[4, 5, 6]]), lengths), target)
    other = model(Padded(torch.tensor([[7, 8, 9]]), lengths), target)
    assert not torch.allclose(one, other)
    for layer in model.decoder:
        nn.init.zeros_(layer.cross_attention.output.weight)
    one = model(Padded(torch.tensor([[4, 5, 6]]), lengths), target)
    other = model(Padded(torch.tensor([[7, 8, 9]]), lengths), target)
    assert torch.equal(one, other)  # there is no other way from the source to the target


def test_the_pictures_can_be_drawn():
    words = ["the", "poor", "are", "destitute"]
    mask = causal_mask(4)
    assert mask.tolist() == torch.ones(4, 4).tril().bool().tolist()
    target = torch.eye(4)
    predicted = torch.softmax(3 * target, dim=1)
    for figure in (
        mask_picture(mask, words, words),
        positions_picture(Sinusoidal(512).first(20)),
        distributions(target, predicted, words),
    ):
        assert figure.axes
