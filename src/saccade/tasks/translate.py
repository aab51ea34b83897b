"""Translate: any sequence to any sequence, learned from pairs of texts."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import nn

from saccade.blocks.recording import record_attention
from saccade.blocks.sequences import Padded
from saccade.data.batches import ROWS, Order, PairBatch, by_length, collate
from saccade.data.store import PairStore, build_store, open_store
from saccade.data.tokenizers import TOKENIZERS, Tokenizer
from saccade.decoding import walk
from saccade.decoding.options import DecodeOptions
from saccade.decoding.sampling import sample
from saccade.decoding.search import Hypothesis, beam_search
from saccade.decoding.texts import spoken
from saccade.decoding.tree import BeamTree
from saccade.errors import InputError
from saccade.inspection.alignment import AttentionMap
from saccade.inspection.traces import Tokens, Watch, attention_map, watched_layers
from saccade.tasks.files import fingerprints, read_pairs_of, refuse_wrong_dev
from saccade.tasks.metrics import sentence_scores, translation_metrics
from saccade.tasks.objectives import refuse_idle_agreement, translate_objective
from saccade.tasks.outputs import output_constraints, output_limits, prefix_ids, unsaid
from saccade.tasks.task import Evaluation, Objective, Plain, Prediction, Warn
from saccade.tasks.vocabularies import (
    as_begun,
    taken_over,
    tokenizer_files,
    train_tokenizers,
    unknown_told,
)

LONGER = 4  # times the longest text of training is read; of more nothing but time would come
QUICK = DecodeOptions(beam=1, max_ratio=1.5, max_extra=5)  # untrained, a model never ends


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslateConfig:
    train: list[str]  # two files, or one with columns
    dev: list[str] | None = None
    columns: tuple[str, ...] | None = None  # of the source and of the target
    tokenizer: str = "bpe"  # bpe, unigram, words, characters, bytes; or a run or tokenizer.json
    vocab_size: int = 4000  # at most
    joint: bool = True  # one vocabulary for both sides
    lowercase: bool = False
    max_length: int = 256  # tokens of a training text; longer pairs are dropped and counted
    on_bad_utf8: Literal["stop", "replace", "skip"] = "stop"
    agreement: float = 0.0  # of two passes with dropout of their own, R-Drop's alpha; 0: one pass

    def __post_init__(self) -> None:
        for name in ("vocab_size", "max_length"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}, it must be at least 1")
        if self.columns is not None and len(self.columns) != 2:
            named = ",".join(self.columns)
            raise InputError(f"--columns {named!r}: two names, such as source,target")
        if self.agreement < 0:
            raise InputError(f"agreement is {self.agreement}, it must be at least 0")


class Translate:
    """The task: tokenizers, and how to learn, decode and score with them."""

    kind = "translate"
    Config = TranslateConfig
    model_field_names = ("source_vocab_size", "target_vocab_size")
    usual_model = "transformer"
    defaults: ClassVar[dict[str, dict[str, Any]]] = {}
    options = DecodeOptions()
    decodes = True

    def __init__(self, config: TranslateConfig, source: Tokenizer, target: Tokenizer):
        self.config, self.source, self.target = config, source, target

    # --- making and finding it ---

    @classmethod
    def prepare(cls, config: TranslateConfig, folder: Path) -> "Translate":
        """Train or take over the tokenizers, and write them into the run."""
        refuse_wrong_dev(read_pairs_of, config)
        text = read_pairs_of(config, config.train)
        if config.tokenizer in TOKENIZERS:
            tokenizers = train_tokenizers(
                text, config.tokenizer, config.vocab_size,
                joint=config.joint, lowercase=config.lowercase,
            )  # fmt: skip
        else:
            tokenizers, said = taken_over(
                config.tokenizer, joint=config.joint, lowercase=config.lowercase
            )
            config = dataclasses.replace(config, **said)
        joint = tokenizers[0] is tokenizers[1]
        task = cls(dataclasses.replace(config, joint=joint), *tokenizers)
        for name, tokenizer in zip(tokenizer_files(joint), tokenizers, strict=False):
            tokenizer.save(folder / name)
        return task

    @classmethod
    def load(cls, config: TranslateConfig, folder: Path) -> "Translate":
        found = [Tokenizer.load(folder / name) for name in tokenizer_files(config.joint)]
        return cls(config, found[0], found[-1])

    @staticmethod
    def suited(
        config: TranslateConfig, model: Any, settings: dict[str, Any]
    ) -> tuple[TranslateConfig, dict[str, Any]]:
        """Texts no longer than the positions a model learns, less one for the begin or the end."""
        fields = {field.name: field.default for field in dataclasses.fields(model.Config)}
        filled = {**fields, **settings}
        refuse_idle_agreement(config.agreement, filled)
        if filled.get("position") == "learned" and "limit" in filled:
            fitting, usual = filled["limit"] - 1, TranslateConfig(train=[]).max_length
            if config.max_length > max(fitting, usual):
                raise InputError(
                    f"task.max_length is {config.max_length}, but a model that learns its "
                    f"positions reads {fitting} tokens and an end: raise model.limit, now "
                    f"{filled['limit']}"
                )
            config = dataclasses.replace(config, max_length=min(config.max_length, fitting))
        return config, settings

    resumed = staticmethod(as_begun)

    def fingerprints(self) -> dict[str, str]:
        return fingerprints(read_pairs_of, self.config)

    # --- learning ---

    def model_fields(self) -> dict[str, int]:
        """What a model's config takes from the data."""
        return {
            "source_vocab_size": self.source.vocab_size,
            "target_vocab_size": self.target.vocab_size,
        }

    def build(self, model: Any, config: Any) -> nn.Module:
        built: nn.Module = model(config, joint=self.config.joint)
        return built

    def store(self, folder: Path, warn: Warn) -> PairStore:
        """The training pairs as token ids on disk, made now or taken from an earlier start."""
        text = read_pairs_of(self.config, self.config.train)
        store = build_store(
            folder, text, self.source, self.target, text.fingerprint(), self.config.max_length
        )
        if summary := text.report.summary():  # nothing when the store was there already
            warn(f"{' '.join(self.config.train)}: {summary}")
        if summary := store.report.summary():
            limit = f"task.max_length is {self.config.max_length} tokens"
            warn(f"{' '.join(self.config.train)}: {summary} ({limit})")
        tokens = sum(int(offsets[-1]) for offsets in store.offsets)
        if told := unknown_told(store.report.unknown, tokens):
            warn(told)
        return store

    def open(self, folder: Path) -> PairStore | None:
        return open_store(folder)

    def order(self, store: PairStore, batch_tokens: int, seed: int) -> Order:
        return Order(store.offsets, batch_tokens, seed)

    def collate(self, store: PairStore, indices: np.ndarray) -> PairBatch:
        return collate(store, indices, self.source, self.target)

    def objective(self, model: nn.Module, smoothing: float) -> Objective:
        return translate_objective(model, smoothing, self.config.agreement)

    def batches(
        self, model: Any, sources: Sequence[str], references: Sequence[str]
    ) -> Iterator[PairBatch]:
        """Pairs of texts as batches of the objective, for a loss on what was not trained on."""
        device, most = next(model.parameters()).device, self._limit(model)
        for start in range(0, len(sources), ROWS):
            some = slice(start, start + ROWS)
            source = [self.read(model, text)[0] for text in sources[some]]
            target = [self.target.encode(text)[: most - 1] for text in references[some]]
            begin, end = self.target.bos, self.target.eos
            read = Padded.of(source, self.source.pad, device)
            said = Padded.of([[begin, *ids, end] for ids in target], self.target.pad, device)
            yield PairBatch(read.tokens, read.lengths, said.tokens, said.lengths - 1)

    # --- predicting ---

    def predict(
        self,
        model: Any,
        texts: Sequence[str],
        options: DecodeOptions,
        *,
        prefixes: Sequence[str] | None = None,
        attention: Watch = False,
        numbers: Sequence[int] | None = None,
        tree: BeamTree | None = None,
    ) -> list[Prediction]:
        """One prediction a text, in order; an empty text gives an empty translation.

        `prefixes` are what each translation begins with; `attention` says what to record;
        `numbers` are what draws are keyed by, the places of the texts in the list when absent;
        `tree` is filled with what a search considered.
        """
        _refuse_of_generate(options)
        numbers = range(len(texts)) if numbers is None else numbers
        prepared = [self.read(model, text) for text in texts]
        found = [Prediction("", 0.0, [], [])] * len(texts)
        for rows in by_length([len(ids) for ids, _ in prepared]):
            alive = [row for row in rows if texts[row].strip()]
            if not alive:
                continue
            begun = [prefix_ids(self.target, prefixes[row]) if prefixes else [] for row in alive]
            ids, keys = [prepared[row][0] for row in alive], [numbers[row] for row in alive]
            with record_attention(model, watched_layers(model, attention)) as seen:
                hypotheses = self._decode(model, ids, begun, options, keys, tree)
            for place, (row, best) in enumerate(zip(alive, hypotheses, strict=True)):
                look = partial(attention_map, model, seen, place) if seen else None
                found[row] = self._prediction(*prepared[row], best, look)
        return found

    def read(self, model: Any, text: str) -> tuple[list[int], bool]:
        """Token ids with the end; what a model cannot read, or nobody could wait for, is cut."""
        ids, limit = self.source.encode(text), self._limit(model)
        return [*ids[: limit - 1], self.source.eos], len(ids) >= limit

    def _limit(self, model: Any) -> int:
        most = LONGER * self.config.max_length
        return most if model.limit is None else min(most, model.limit)

    @torch.inference_mode()
    def _decode(
        self,
        model: Any,
        ids: list[list[int]],
        begun: list[list[int]],
        options: DecodeOptions,
        numbers: list[int],
        tree: BeamTree | None,
    ) -> list[list[Hypothesis]]:
        """The n-best of each source, searched for or drawn."""
        state, bounds = self._start(model, ids), self._bounds(model, ids, begun, options)
        if not options.sample:
            return beam_search(model, state, bounds, options, tree)
        drawn = sample(model, state, bounds, options, options.draw(numbers))
        return [[hypothesis] for hypothesis in drawn]

    def _bounds(
        self, model: Any, ids: list[list[int]], begun: list[list[int]], options: DecodeOptions
    ) -> walk.Bounds:
        """What translations of these sources may be; `begun` is how they have to begin."""
        return walk.Bounds(
            first=self.target.bos,
            eos=self.target.eos,
            max_lengths=output_limits(options, ids, begun, model.limit),
            constraints=output_constraints(unsaid(self.target), begun),
        )

    def _start(self, model: Any, ids: list[list[int]]) -> Any:
        """The decoder's state for a batch of sources."""
        device = next(model.parameters()).device
        return model.start(Padded.of(ids, self.source.pad, device))

    def stream(
        self,
        model: Any,
        text: str,
        options: DecodeOptions,
        number: int = 0,
        on_cut: Callable[[int], None] = lambda _: None,
    ) -> Iterator[str]:
        """The translation piece by piece as it is made, greedily or drawn; no whole beam is.

        `on_cut` is called when the text is too long, with how many tokens of it are read.
        """
        _refuse_of_generate(options)
        if not text.strip():
            return
        ids, truncated = self.read(model, text)
        if truncated:
            on_cut(len(ids) - 1)
        with torch.no_grad():
            state = self._start(model, [ids])
        bounds = options.narrow(self._bounds(model, [ids], [[]], options))
        choose = options.draw([number]) if options.sample else walk.best
        steps = walk.stream(model, state, bounds, choose=choose)
        yield from spoken(self.target.decode, [], (token for token, _ in steps))

    def _prediction(
        self,
        ids: list[int],
        truncated: bool,
        hypotheses: list[Hypothesis],
        look: Callable[[list[int], Tokens], AttentionMap] | None,
    ) -> Prediction:
        nbest = []
        for each in hypotheses:
            said = each.tokens + [self.target.eos] * each.finished
            tokens = self._tokens(ids, said)
            nbest.append(
                Prediction(
                    text=self.target.decode(each.tokens),
                    score=each.score,
                    tokens=tokens.said,
                    source_tokens=tokens.source,
                    token_scores=each.token_log_probs,
                    attention=None if look is None else look(each.path, tokens),
                    truncated=truncated,
                    ids=each.tokens,
                    read=len(ids) - 1,
                    finished=each.finished,
                )
            )
        return dataclasses.replace(nbest[0], alternatives=nbest[1:])

    def trace(self, model: Any, text: str, prediction: Prediction) -> Tokens:
        """Read a text and its prediction at once, as in training, for who is watching."""
        end = [self.target.eos] * (len(prediction.tokens) - len(prediction.ids))
        (ids, _), said = self.read(model, text), [*prediction.ids, *end]
        device = next(model.parameters()).device
        with torch.inference_mode():
            read = torch.tensor([[self.target.bos, *said[:-1]]], device=device)
            model(Padded.of([ids], self.source.pad, device), read)
        return self._tokens(ids, said)

    def _tokens(self, source: list[int], said: Sequence[int]) -> Tokens:
        read = [self.target.bos, *said[:-1]]
        target = self.target.tokens
        return Tokens(self.source.tokens(source), target(read), target(said))

    # --- scoring ---

    def examples(self, files: Sequence[str], warn: Warn) -> Plain:
        """The sources and references of an evaluation set."""
        text = read_pairs_of(self.config, files)
        pairs = list(text)
        if summary := text.report.summary():
            warn(f"{' '.join(files)}: {summary}")
        sources, references = zip(*pairs, strict=True)
        return {"source": list(sources), "reference": list(references)}

    def units(self, examples: Plain) -> list[Plain]:
        """Sources of similar length, the longest first, with their numbers."""
        sources = examples["source"]
        parts = by_length([len(source) for source in sources])
        return [{"numbers": part, "texts": [sources[n] for n in part]} for part in parts]

    def measure(self, model: Any, unit: Plain, options: DecodeOptions | None = None) -> Plain:
        """The translations; during training greedily."""
        found = self.predict(model, unit["texts"], options or QUICK, numbers=unit["numbers"])
        texts, cut = [each.text for each in found], sum(each.truncated for each in found)
        return {"numbers": unit["numbers"], "texts": texts, "cut": cut}

    def score(self, examples: Plain, measures: Sequence[Plain]) -> Evaluation:
        sources, references = examples["source"], examples["reference"]
        said = {
            number: text
            for each in measures
            for number, text in zip(each["numbers"], each["texts"], strict=True)
        }
        predictions = [said[number] for number in range(len(sources))]
        lowercase = self.target.lowercase  # who writes no capitals is not asked for any
        metrics = translation_metrics(predictions, references, lowercase=lowercase)
        scores = sentence_scores(predictions, references, lowercase=lowercase)
        columns = zip(sources, references, predictions, scores, strict=True)
        rows = [
            {"source": source, "reference": reference, "prediction": prediction, **score}
            for source, reference, prediction, score in columns
        ]
        cut = sum(each["cut"] for each in measures)
        told = f"{cut:,} of {len(sources):,} sources are too long; their ends were cut off"
        return Evaluation(metrics, rows, {"examples": len(rows)}, warnings=[told] if cut else [])


def _refuse_of_generate(options: DecodeOptions) -> None:
    if options.stop or options.repetition_penalty != 1:
        raise InputError("stop and repetition_penalty are of generate, not of translate")
