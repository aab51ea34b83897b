"""The promises of a model of translate or generate, each a function that says what is broken.

`saccade check FILE.py:Class` runs them on a user's class, the tests on every entry of the tables;
those of a score are in `score_checks.py`, those of a task in `tasks/task_checks.py`.
Tiny sizes and double precision: what differs here differs by mistake, not by rounding.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from saccade.blocks.masks import padding_mask
from saccade.blocks.recording import Observed, attentions, record_attention
from saccade.blocks.sequences import Padded
from saccade.blocks.state import State
from saccade.errors import nearest
from saccade.inspection.score_checks import Check, UncheckedError, near
from saccade.models.contract import learns_by_counting, missing
from saccade.randomness import seeded

VOCABULARY = 11


class Sourceless(nn.Module):
    """A language model in a translator's place: it never looks at the source."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model
        self.logits, self.step, self.limit = model.logits, model.step, model.limit

    def forward(self, source: Padded, target: Tensor) -> Tensor:  # noqa: ARG002
        hidden: Tensor = self.model(target)[0]
        return hidden

    def start(self, source: Padded, prefix: Sequence[Sequence[int]] | None = None) -> Any:
        return self.model.start(len(source.tokens), prefix)


def _generates(cls: Any) -> bool:
    return "generate" in getattr(cls, "tasks", ())


def tiny_model(cls: Any, seed: int = 1) -> Any:
    """The model as small as its settings go, in double precision, not in training."""
    config = cls.Config(**tiny_sizes(cls))
    with seeded(seed):
        model = Sourceless(cls(config)) if _generates(cls) else cls(config, joint=True)
        if learns_by_counting(cls):
            model.model.fit([torch.randint(VOCABULARY, (1000,)).numpy()])
    return model.double().eval()


def tiny_sizes(cls: Any) -> dict[str, Any]:
    """Settings of a model as small as it goes."""
    names = [field.name for field in dataclasses.fields(cls.Config)]
    wanted = {"dim": 16, "layers": 2, "heads": 2, "ffn_dim": 32, "dropout": 0.1, "context": 16}
    sizes = {name: value for name, value in wanted.items() if name in names}
    return sizes | {name: VOCABULARY for name in names if name.endswith("vocab_size")}


def _sources() -> Padded:
    tokens = torch.tensor([[4, 5, 6, 7, 2], [8, 9, 2, 0, 0], [10, 4, 4, 2, 0]])
    return Padded(tokens, torch.tensor([5, 3, 4]))


def _targets() -> Tensor:
    return torch.tensor([[1, 5, 6, 7], [1, 9, 8, 4], [1, 10, 4, 6]])


def has_members(cls: Any) -> None:
    """All that `models/contract.py` promises."""
    model = tiny_model(cls)
    lacking = missing(model.model if _generates(cls) else model)
    assert not lacking, f"it lacks {', '.join(lacking)} (see saccade.models.contract)"


@torch.no_grad()
def sees_no_future(cls: Any) -> None:
    """What comes later in the target changes nothing before it, not one bit."""
    model, target = tiny_model(cls), _targets()
    changed = target.clone()
    changed[:, 2:] = torch.tensor([10, 5])
    before, after = model(_sources(), target)[:, :2], model(_sources(), changed)[:, :2]
    assert torch.equal(before, after), "a later target token changed an earlier position"
    late = model(_sources(), changed)[:, 2:]
    assert not torch.equal(model(_sources(), target)[:, 2:], late), "the target is not read at all"


@torch.no_grad()
def ignores_padding(cls: Any) -> None:
    """More padding, or other tokens in it, changes nothing; alone is as in a batch."""
    model, source, target = tiny_model(cls), _sources(), _targets()
    wanted = model(source, target)
    wider = nn.functional.pad(source.tokens, (0, 3), value=0)
    near(model(Padded(wider, source.lengths), target), wanted, "more padding changed the result")
    filled = source.tokens.clone()
    filled[1, 3:] = 7
    near(model(Padded(filled, source.lengths), target), wanted, "what lies in the padding was read")
    alone = model(Padded(source.tokens[1:2, :3], source.lengths[1:2]), target[1:2])
    near(alone, wanted[1:2], "a sentence alone is not what it is in a batch")


@torch.no_grad()
def steps_as_at_once(cls: Any) -> None:
    """Token by token gives the logits of reading the whole target at once; a prefix too."""
    model, source, target = tiny_model(cls), _sources(), _targets()
    wanted = model.logits(model(source, target))
    state = model.start(source)
    assert isinstance(state, State), "the state needs `rows`, `select(rows)` and `join(other)`"
    for place in range(target.shape[1]):
        logits, state = model.step(target[:, place], state)
        near(logits, wanted[:, place], f"step {place} is not what reading at once gives")
    state = model.start(source, prefix=target[:, :2].tolist())
    logits, _ = model.step(target[:, 2], state)
    near(logits, wanted[:, 2], "after a prefix the next step is another")


def _stepped(model: Any, source: Padded, tokens: Tensor) -> Any:
    state = model.start(source)
    for place in range(tokens.shape[1]):
        _, state = model.step(tokens[:, place], state)
    return state


@torch.no_grad()
def selects_rows(cls: Any) -> None:
    """Chosen rows, also repeated and reordered, go on as if computed alone; the old state stays."""
    model, source, target = tiny_model(cls), _sources(), _targets()
    state = _stepped(model, source, target[:, :2])
    wanted, _ = model.step(target[:, 2], state)
    rows = torch.tensor([2, 0, 0])
    chosen = state.select(rows)
    assert chosen.rows == 3, f"after select of 3 rows the state has {chosen.rows}"
    found, _ = model.step(target[rows, 2], chosen)
    near(found, wanted[rows], "select does not keep what the rows had read")
    again, _ = model.step(target[:, 2], state)
    near(again, wanted, "stepping a selected state changed the state it came from")


@torch.no_grad()
def joins_rows(cls: Any) -> None:
    """Rows of different age and source length, joined, step as they do apart."""
    model, source, target = tiny_model(cls), _sources(), _targets()
    older = _stepped(model, source, target[:, :3])
    young = Padded(torch.tensor([[6, 2]]), torch.tensor([2]))
    younger = _stepped(model, young, torch.tensor([[1]]))
    token = torch.tensor([4, 5, 6, 7])
    both, _ = model.step(token, older.join(younger))
    apart = torch.cat([model.step(token[:3], older)[0], model.step(token[3:], younger)[0]])
    near(both, apart, "joined rows do not step as they do apart")


@torch.no_grad()
def survives_saving(cls: Any) -> None:
    """Its parameters and buffers are all there is: another of its kind with them is the same."""
    model, source, target = tiny_model(cls), _sources(), _targets()
    other = tiny_model(cls, seed=2)
    other.load_state_dict(model.state_dict())
    near(other(source, target), model(source, target), "the weights do not hold all of the model")


@torch.no_grad()
def shows_what_it_looks_at(cls: Any) -> None:
    """`alignment_layers` are attentions to the source: weights that sum to one, none on padding."""
    model, source, target = tiny_model(cls), _sources(), _targets()
    layers, known = list(model.alignment_layers), attentions(model)
    if not layers:
        raise UncheckedError("it has no attention from target to source")
    for name in layers:
        hint = f"no attention is called that; {nearest(name, known)}"
        assert name in known, f"alignment_layers has {name!r}, but {hint}"
    with record_attention(model, layers) as at_once:
        model(source, target)
    with record_attention(model, layers) as stepping:
        _stepped(model, source, target)
    for name in layers:
        times, steps = len(stepping.get(name, ())), target.shape[1]
        assert times == steps, f"{name} was asked {times} times in {steps} steps"
        assert at_once.get(name), f"{name} was not asked when the target was read at once"
        found = _weights(stepping[name], source, known[name], name)
        _looks_at(source, found, known[name], name)
        wanted = _weights(at_once[name], source, known[name], name)
        near(found, wanted, f"{name} looks elsewhere step by step than at once")


def _weights(calls: Sequence[Tensor], source: Padded, attention: Observed, name: str) -> Tensor:
    """Of all queries, (B, H, T, S)."""
    rows, columns = source.tokens.shape
    for each in calls:
        shape = tuple(each.shape)
        wanted = f"(B, H, T, S) = ({rows}, {attention.heads}, T, {columns})"
        fits = len(shape) == 4 and (*shape[:2], shape[3]) == (rows, attention.heads, columns)
        assert fits, f"the weights of {name} must be {wanted}, not {shape}"
    return torch.cat(list(calls), dim=2)


def _looks_at(source: Padded, weights: Tensor, attention: Observed, name: str) -> None:
    """As a distribution over the real positions of the source."""
    real = padding_mask(source.lengths, source.tokens.shape[1])[:, None, None]
    assert (weights >= 0).all(), f"the weights of {name} are negative or not numbers"
    assert not (weights * ~real).any(), f"{name} looks at padding"
    if attention.sums_to_one:
        message = f"the weights of {name} do not sum to one; if that is meant, sums_to_one = False"
        near(weights.sum(-1), weights.new_ones(weights.shape[:-1]), message)


def learns(cls: Any) -> None:
    """Every parameter gets a finite gradient."""
    model, source, target = tiny_model(cls), _sources(), _targets()
    model.logits(model(source, target)).log_softmax(-1)[..., 5].sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, f"{name} gets no gradient: is it used?"
        assert torch.isfinite(parameter.grad).all(), f"the gradient of {name} is not finite"


@torch.no_grad()
def carries_on(cls: Any) -> None:
    """Segments of a text, with what the model carries from one to the next, are the whole text."""
    model, tokens = tiny_model(cls).model, _targets()
    wanted, _ = model(tokens)
    first, carry = model(tokens[:, :2])
    if carry is None:
        raise UncheckedError("it carries nothing: every segment is read afresh")
    parts = carry if isinstance(carry, dict) else {}  # a model that counts carries what it likes
    for name, tensor in parts.items():
        assert not tensor.requires_grad, f"carry {name!r} is not detached"
        assert len(tensor) == len(tokens), f"carry {name!r} has no row for each text"
    second, _ = model(tokens[:, 2:], carry)
    near(torch.cat([first, second], dim=1), wanted, "what is carried does not replace the text")
    rows = torch.tensor([2, 0])
    some = {name: each[rows] for name, each in parts.items()} if parts else carry.select(rows)
    chosen, _ = model(tokens[rows, 2:], some)
    near(chosen, wanted[rows, 2:], "what is carried is not stored by row")


@torch.no_grad()
def reads_rows_apart(cls: Any) -> None:
    """Texts in another order, or one alone, give what they gave."""
    model, tokens = tiny_model(cls).model, _targets()
    wanted, _ = model(tokens)
    order = torch.tensor([2, 0, 1])
    near(model(tokens[order])[0], wanted[order], "the order of a batch changes a result")
    near(model(tokens[1:2])[0], wanted[1:2], "a text alone is not what it is in a batch")


MODEL_CHECKS: dict[str, Check] = {
    "all members are there": has_members,
    "no future is seen": sees_no_future,
    "padding changes nothing": ignores_padding,
    "step by step is as at once": steps_as_at_once,
    "select keeps rows": selects_rows,
    "join puts rows together": joins_rows,
    "what it looks at is shown": shows_what_it_looks_at,
    "weights hold all of it": survives_saving,
    "every parameter learns": learns,
}
LANGUAGE_CHECKS: dict[str, Check] = {
    promise: check
    for promise, check in MODEL_CHECKS.items()
    if check not in (ignores_padding, shows_what_it_looks_at)  # there is no source
} | {"a text goes on in segments": carries_on, "texts are read apart": reads_rows_apart}
COUNTING_CHECKS = {name: check for name, check in LANGUAGE_CHECKS.items() if check is not learns}


def model_checks(cls: Any) -> Mapping[str, Check]:
    """Those for what the model reads, and how it learns."""
    language = COUNTING_CHECKS if learns_by_counting(cls) else LANGUAGE_CHECKS
    return language if _generates(cls) else MODEL_CHECKS
