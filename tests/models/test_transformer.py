"""What is the Transformer's own: limits, tying, what its config refuses, the paper's sizes."""

import pytest
import torch
from contracts.decoder_variants import BOS, Variant, alone, padded, stepped

from saccade.config import build
from saccade.errors import InputError
from saccade.models.transformer import Transformer, TransformerConfig

SIZES = {"source_vocab_size": 13, "target_vocab_size": 13}


@torch.no_grad()
def test_learned_positions_end_with_a_clear_message():
    model = Variant("transformer", {"position": "learned", "limit": 6}).build()
    assert model.limit == 6
    model(padded([3] * 6), torch.tensor([[BOS] * 6]))
    for source, target in [([3] * 7, [BOS]), ([3], [BOS] * 7)]:
        with pytest.raises(InputError, match="7 positions, but only 6 were learned"):
            model(padded(source), torch.tensor([target]))
    _, state = stepped(model, model.start(padded([3])), [[BOS] * 6])
    with pytest.raises(InputError, match="7 positions"):
        model.step(torch.tensor([3]), state)
    with pytest.raises(InputError, match="7 positions"):
        model.start(padded([3]), [[BOS] * 7])


@torch.no_grad()
@pytest.mark.parametrize("position", ["sinusoidal", "sinusoidal-halves", "index", "circle"])
def test_a_formula_goes_on_beyond_its_first_rows(position):
    model = Variant("transformer", {"position": position, "limit": 4}).build()
    assert model.limit is None
    target = [BOS, *range(12)]
    found, _ = stepped(model, model.start(padded([3] * 12)), [target])
    torch.testing.assert_close(found[0], alone(model, [3] * 12, target), rtol=0, atol=1e-10)


def test_a_joint_embedding_is_one_matrix_in_three_places():
    model = Transformer(TransformerConfig(**SIZES, dim=8, layers=1, heads=2), joint=True)
    assert model.source_embedding is model.target_embedding
    assert model.output_weight is model.target_embedding.weight
    names = [name for name, _ in model.named_parameters() if "embedding" in name]
    assert names == ["target_embedding.weight"]
    apart = Transformer(TransformerConfig(**SIZES, dim=8, layers=1, heads=2), joint=False)
    assert apart.source_embedding is not apart.target_embedding


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 10, "heads": 4}, r"dim \(10\) must be a multiple of heads \(4\)"),
        ({"score": "location"}, "'location' looks at places, not at keys"),
        ({"score": {"name": "location", "limit": 9}}, "looks at places, not at keys"),
        ({"score": "scaled"}, "unknown model.score 'scaled'; did you mean 'scaled-dot'"),
        (
            {"score": {"name": "cosine", "sharpening_": 2}},
            "unknown key 'model.score.sharpening_'; did you mean 'sharpening'",
        ),
        ({"score": {"name": "cosine", "sharpening": "high"}}, "model.score.sharpening = 'high'"),
        ({"score": {"name": "dot", "scale": 2}}, "it has no parameters"),
        ({"score": {"hidden_dim": 3}}, "expected a name, or a table with a name"),
        ({"norm": "batch"}, "model.norm = 'batch'; expected 'layer' or 'rms'"),
    ],
)
def test_a_config_that_cannot_work_is_refused(settings, message):
    with pytest.raises(InputError, match=message):
        Transformer(build(TransformerConfig, {**SIZES, **settings}, "model"), joint=False)
