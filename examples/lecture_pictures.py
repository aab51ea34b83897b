"""The pictures of a lecture on attention, drawn from formulas and from translators trained here.

    python examples/lecture_pictures.py [FOLDER]

Four small translators of the built-in corpus learn for a minute and a half each on two cores: one
from French, three from English with 1, 2 and 8 heads. SACCADE_QUICK=1 makes two updates of each:
enough to draw every picture, too few to mean anything.
"""

import os
import sys
from pathlib import Path
from typing import Any

import torch

import saccade
from saccade.blocks.embeddings import TokenEmbedding
from saccade.blocks.positions import Sinusoidal
from saccade.blocks.sequences import Padded
from saccade.decoding.tree import BeamTree
from saccade.inspection.input_pictures import (
    embedding_plus_positions,
    lecture_masks,
    position_layouts,
)
from saccade.inspection.pictures import distributions, save_figure
from saccade.inspection.tree_picture import beam_tree
from saccade.inspection.word_pictures import head_questions, word_heads

QUICK = os.environ.get("SACCADE_QUICK", "") not in ("", "0")
SPLIT = "dev" if QUICK else "train"  # dev is small
OUT = Path(sys.argv[1] if len(sys.argv) > 1 else "lecture")
HEADS = {"1 head": 1, "2 heads": 2, "8 heads": 8}
TIRED = "The animal did not cross the street because it was too tired."


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    draw("masks", lecture_masks())
    draw("positions", position_layouts(20, 512))
    draw("inputs", inputs(["I", "love", "Transformers", "!"]))

    french = translator("french-english", heads=4)
    draw("before-and-after", before_and_after(french, "Ils regardent.", "They are watching."))
    draw("questions", questions(french, "Jane visite l'Afrique en septembre", "Afrique"))
    draw("beam", beam(french, "les pauvres sont démunis"))

    english = {number: translator("english-french", heads) for number, heads in HEADS.items()}
    draw("it", what_it_looks_at(english, "it"))


def draw(name: str, figure: Any) -> None:
    print(save_figure(figure, OUT / f"{name}.svg"))


def translator(corpus: str, heads: int) -> saccade.Model:
    """A `tiny` Transformer that reads and writes whole words."""
    run = saccade.train(
        "translate",
        train=f"builtin:{corpus}/{SPLIT}",
        out=OUT / f"{corpus}-{heads}",
        steps=2 if QUICK else None,
        minutes=None if QUICK else 1.5,
        config={"model": {"heads": heads}, "task": {"tokenizer": "words"}},
        resume=True,  # what is there already is taken as it is
        quiet=True,
    )
    return saccade.load(run)


def inputs(words: list[str]) -> Any:
    """What enters a Transformer of width 10: a vector for each word, plus one for its place."""
    torch.manual_seed(1)
    embedding = TokenEmbedding(len(words), dim=10, scale=1.0)
    vectors = embedding(torch.arange(len(words))).detach()
    title = "The same word at another place is another vector"
    return embedding_plus_positions(vectors, Sinusoidal(10).first(len(words)), words, title)


def before_and_after(model: saccade.Model, source: str, target: str) -> Any:
    """The wanted distribution over words at each step, and the predicted ones."""
    task: Any = model.task
    torch.manual_seed(1)
    fresh: Any = type(model.module)(model.module.config, joint=task.config.joint).eval()
    ids = task.target.encode(target)
    columns = [*ids, task.target.eos]
    wanted = torch.eye(len(columns))
    found = [predicted(each, task, source, ids)[:, columns] for each in (model.module, fresh)]
    words = task.target.tokens(columns)
    title = f"{source} / {target}"
    return distributions(wanted, found[0], words, steps=words, title=title, before=found[1])


@torch.inference_mode()
def predicted(module: Any, task: Any, source: str, ids: list[int]) -> torch.Tensor:
    """The probability of every word at every step, the target being read along."""
    read = Padded.of([[*task.source.encode(source), task.source.eos]], task.source.pad, CPU)
    hidden = module(read, torch.tensor([[task.target.bos, *ids]]))
    return torch.softmax(module.logits(hidden)[0], dim=-1)


CPU = torch.device("cpu")


def questions(model: saccade.Model, text: str, word: str) -> Any:
    """What every head of the first layer of the encoder asks about one word."""
    weights, words = within(model, text, layer=0)
    heads = [f"head {number + 1}" for number in range(len(weights))]
    return head_questions(weights[:, place_of(word, words)], words, word, heads)


def what_it_looks_at(models: dict[str, saccade.Model], word: str) -> Any:
    """One word under models of several numbers of heads, in the last layer of the encoder."""
    panels = {}
    for name, model in models.items():
        weights, words = within(model, TIRED, layer=-1)
        panels[name] = weights[:, place_of(word, words)]
    return word_heads(panels, words, word, TIRED)


def within(model: saccade.Model, text: str, layer: int) -> tuple[torch.Tensor, list[str]]:
    """The self-attention (heads, words, words) of a layer of the encoder, and the words."""
    module: Any = model.module
    name = module.source_layers[layer]
    seen = model.predict([text], attention=[name])[0].attention
    assert seen is not None
    return seen.weights[name], seen.source


def place_of(word: str, words: list[str]) -> int:
    return next(place for place, each in enumerate(words) if word in each)


def beam(model: saccade.Model, text: str) -> Any:
    """Beam search where a path has two choices and two paths are kept: k = t = 2."""
    task: Any = model.task
    tree = BeamTree()
    options = saccade.DecodeOptions(beam=2, choices=2)
    model.predict([text], options, tree=tree)
    return beam_tree(tree, lambda token: task.target.tokens([token])[0], title=text)


if __name__ == "__main__":
    main()
