"""Generate: the next token of any text, learned from texts; continues prompts."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import nn

from saccade.blocks.recording import record_attention
from saccade.data.batches import by_length
from saccade.data.contexts import Lanes, Rows, Shuffled, TokenBatch, collate_contexts
from saccade.data.documents import Passage
from saccade.data.streams import TokenStream, build_stream, open_stream
from saccade.data.tokenizers import TOKENIZERS, Tokenizer
from saccade.decoding import walk
from saccade.decoding.options import DecodeOptions
from saccade.decoding.search import beam_search
from saccade.decoding.texts import before_stop, spoken, stopping
from saccade.decoding.tree import BeamTree
from saccade.decoding.walk import Hypothesis, hypothesis
from saccade.errors import InputError
from saccade.inspection.alignment import AttentionMap
from saccade.inspection.traces import Tokens, Watch, watched_layers
from saccade.models.contract import learns_by_counting
from saccade.tasks import perplexity
from saccade.tasks.files import fingerprints, read_documents_of, refuse_wrong_dev
from saccade.tasks.next_token import NextToken
from saccade.tasks.outputs import (
    output_constraints,
    output_limits,
    output_preferences,
    prefix_ids,
    unsaid,
)
from saccade.tasks.perplexity import Reading
from saccade.tasks.rereading import looks, reread
from saccade.tasks.task import Evaluation, Plain, Prediction, Warn
from saccade.tasks.vocabularies import as_begun, taken_over, train_on_texts, unknown_told

CONTEXT = 128  # tokens, where neither the task nor the model says
COUNTED = 4096  # and for a model that counts: it makes no difference but to the time
PROMPT = 1 << 16  # tokens of a prompt that are read, the last ones
FILE = "tokenizer.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerateConfig:
    train: list[str]  # plain text, or tables (.tsv, .csv, .jsonl, .parquet) with a document a row
    dev: list[str] | None = None
    columns: tuple[str, ...] | None = None  # of the text in a table
    tokenizer: str = "bpe"  # bpe, unigram, words, characters, bytes; or a run or tokenizer.json
    vocab_size: int = 4000  # at most
    lowercase: bool = False
    context: int | None = None  # tokens read at a time; unset: as the model has it
    carry: bool | None = None  # go on with the state of the context before; unset: if it has one
    stride: int | None = None  # of contexts in evaluation; unset: they lie side by side
    ends: bool | None = None  # may end a text by itself; unset: if it learned from a table
    begins: bool | None = None  # a prompt begins a text; unset: if texts have ends
    on_bad_utf8: Literal["stop", "replace", "skip"] = "stop"

    def __post_init__(self) -> None:
        for name in ("vocab_size", "context", "stride"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}, it must be at least 1")
        if self.context and self.stride and self.stride > self.context:
            raise InputError(
                f"stride is {self.stride} and context {self.context}: some tokens would be left out"
            )


class Generate:
    """The task: a tokenizer, and how to learn, measure and continue texts with it."""

    kind = "generate"
    Config = GenerateConfig
    model_field_names = ("vocab_size",)
    usual_model = "gpt"
    defaults: ClassVar[dict[str, dict[str, Any]]] = {
        "train": {"smoothing": 0.0, "peak_rate": 2e-3, "warmup": 100, "batch_tokens": 2048},
    }
    options = DecodeOptions(sample=True, beam=1, length=200, length_penalty=0.0)
    decodes = False

    def __init__(self, config: GenerateConfig, tokenizer: Tokenizer):
        self.config, self.tokenizer = config, tokenizer
        self.ends = (
            read_documents_of(config, config.train).ends if config.ends is None else config.ends
        )
        self.begins = self.ends if config.begins is None else config.begins
        # Where one token is both, it is what stands between two texts, and can be predicted.
        self.silent = tokenizer.bos if tokenizer.bos != tokenizer.eos else -1
        # Nothing is unknown to a tokenizer whose end stands in for a token that it lacks.
        self.unknown = tokenizer.unk if tokenizer.unk != tokenizer.eos else -1

    # --- making and finding it ---

    @classmethod
    def prepare(cls, config: GenerateConfig, folder: Path) -> "Generate":
        """Train or take over the tokenizer, and write it into the run."""
        refuse_wrong_dev(read_documents_of, config)
        if config.tokenizer in TOKENIZERS:
            reading = read_documents_of(config, config.train)
            tokenizer = train_on_texts(
                (passage.text for passage in reading), config.tokenizer, config.vocab_size,
                lowercase=config.lowercase,
            )  # fmt: skip
        else:
            (tokenizer, _), said = taken_over(config.tokenizer, lowercase=config.lowercase)
            config = dataclasses.replace(config, **said)
        tokenizer.save(folder / FILE)
        return cls(config, tokenizer)

    @classmethod
    def load(cls, config: GenerateConfig, folder: Path) -> "Generate":
        return cls(config, Tokenizer.load(folder / FILE))

    @staticmethod
    def suited(
        config: GenerateConfig, model: Any, settings: dict[str, Any]
    ) -> tuple[GenerateConfig, dict[str, Any]]:
        """One context for task and model, and a carried state where the model has one."""
        fields = {field.name: field.default for field in dataclasses.fields(model.Config)}
        if "context" in fields and config.context is not None:
            settings = {"context": config.context, **settings}
        usual = COUNTED if learns_by_counting(model) else CONTEXT
        theirs = settings.get("context", fields.get("context", usual))
        context = theirs if config.context is None else config.context
        if "context" in fields and context > theirs:
            raise InputError(
                f"task.context is {context}, but model.context only {theirs}: set one of them"
            )
        # A model without a limit reads on and on: what it read before is in its state.
        carries = getattr(model, "limit", 0) is None
        if config.carry and not carries:
            raise InputError("task.carry: this model has no state that could be carried")
        carry = carries if config.carry is None else config.carry
        if carry and config.stride is not None:
            raise InputError("stride is of contexts that are not carried: set task.carry=false")
        return dataclasses.replace(config, context=context, carry=carry), settings

    resumed = staticmethod(as_begun)

    def fingerprints(self) -> dict[str, str]:
        return fingerprints(read_documents_of, self.config)

    @property
    def context(self) -> int:
        """Tokens read at a time, which the model has a say in."""
        assert self.config.context is not None, "a config comes from `suited`, which sets it"
        return self.config.context

    # --- learning ---

    def model_fields(self) -> dict[str, int]:
        """What a model's config takes from the data."""
        return {"vocab_size": self.tokenizer.vocab_size}

    def build(self, model: Any, config: Any) -> nn.Module:
        built: nn.Module = model(config)
        return built

    def store(self, folder: Path, warn: Warn) -> TokenStream:
        """The training texts as one stream of token ids on disk."""
        documents = read_documents_of(self.config, self.config.train)
        stream = build_stream(folder, documents, self.tokenizer, documents.fingerprint())
        if summary := documents.report.summary():  # nothing when the stream was there already
            warn(f"{' '.join(self.config.train)}: {summary}")
        if told := unknown_told(stream.unknown, len(stream)):
            warn(told)
        return stream

    def open(self, folder: Path) -> TokenStream | None:
        return open_stream(folder)

    def order(self, store: TokenStream, batch_tokens: int, seed: int) -> Shuffled | Lanes:
        """Contexts in a drawn order; in lanes if a state is carried."""
        kind = Lanes if self.config.carry else Shuffled
        return kind(len(store), self.context, batch_tokens, seed)

    def collate(self, store: TokenStream, rows: Rows) -> TokenBatch:
        return collate_contexts(store, rows, self.silent)

    def objective(self, model: nn.Module, smoothing: float) -> NextToken:
        return NextToken(model, smoothing, carry=bool(self.config.carry), silent=self.silent)

    def sequences(self, store: TokenStream) -> Iterator[np.ndarray]:
        """The texts, for a model that counts."""
        return store.texts()

    # --- measuring ---

    @property
    def reading(self) -> Reading:
        """How texts are read when they are measured."""
        return Reading(self.context, self.config.stride or self.context, bool(self.config.carry))

    def examples(self, files: Sequence[str], warn: Warn) -> Plain:
        """The passages of a text, and whether the ends of its texts count."""
        documents = read_documents_of(self.config, files)
        passages = [[each.text, each.first, each.last] for each in documents]
        if summary := documents.report.summary():
            warn(f"{' '.join(files)}: {summary}")
        return {"passages": passages, "ends": documents.ends}

    def units(self, examples: Plain) -> list[Plain]:
        ends = examples["ends"] and self.ends  # what was never learned is not asked for
        return perplexity.units(_passages(examples), self.tokenizer, self.reading, ends=ends)

    def measure(
        self,
        model: Any,
        unit: Plain,
        options: DecodeOptions | None = None,  # noqa: ARG002  nothing is decoded
    ) -> Plain:
        return perplexity.measure(model, unit, self.reading, self.unknown)

    def score(self, examples: Plain, measures: Sequence[Plain]) -> Evaluation:
        return perplexity.score(_passages(examples), measures, self.reading)

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
        """What follows each prompt; an empty prompt is the begin of a text.

        `prefixes` are what each continuation begins with; `numbers` are what draws are keyed by,
        the places of the prompts in the list when absent; `tree` is filled with what a search
        considered.
        """
        numbers = range(len(texts)) if numbers is None else numbers
        prompts = [self.read(model, text) for text in texts]
        found: list[Prediction | None] = [None] * len(texts)
        for rows in by_length([len(ids) for ids, _ in prompts]):
            ids = [prompts[row][0] for row in rows]
            begun = [prefix_ids(self.tokenizer, prefixes[row]) if prefixes else [] for row in rows]
            hypotheses = self._continue(
                model, ids, begun, options, [numbers[row] for row in rows], tree
            )
            for row, nbest in zip(rows, hypotheses, strict=True):
                prompt, cut = prompts[row]
                made = self._prediction(prompt, cut, nbest, options)
                found[row] = self._watched(model, prompt, made, attention)
        return [each for each in found if each is not None]

    def stream(
        self,
        model: Any,
        text: str,
        options: DecodeOptions,
        number: int = 0,
        on_cut: Callable[[int], None] = lambda _: None,
    ) -> Iterator[str]:
        """The continuation piece by piece as it is made, drawn or greedily.

        `on_cut` is called when the prompt is too long, with how many tokens, its last, are read.
        """
        ids, cut = self.read(model, text)
        if cut:
            on_cut(len(ids))  # the begin is not among them
        with torch.inference_mode():
            state = model.start(1, [ids[:-1]])
        bounds, against = self._bounds([ids], [[]], options), output_preferences(options, [ids])
        choose = options.draw([number]) if options.sample else walk.best
        steps = walk.stream(
            model, state, options.narrow(bounds), choose=choose, preferences=against
        )
        yield from spoken(self.tokenizer.decode, ids, (t for t, _ in steps), options.stop)

    def trace(self, model: Any, text: str, prediction: Prediction) -> Tokens:
        """Read a prompt and its continuation again, for who is watching."""
        end = [self.tokenizer.eos] * (len(prediction.tokens) - len(prediction.ids))
        ids = [*self.read(model, text)[0], *prediction.ids, *end]
        reread(model, ids[:-1])
        tokens = self.tokenizer.tokens(ids)
        return Tokens([], tokens[:-1], tokens[1:])

    def read(self, model: Any, text: str) -> tuple[list[int], bool]:
        """The ids of a prompt, and whether its beginning has no room.

        A document begins with the begin of a text. A stretch of plain text does not: it may stand
        anywhere in one. Nothing at all is the begin, too.
        """
        ids = self.tokenizer.encode(text)
        if self.begins or not ids:
            ids = [self.tokenizer.bos, *ids]
        room = PROMPT if model.limit is None else min(PROMPT, model.limit)
        return ids[-room:], len(ids) > room

    @property
    def unsaid(self) -> tuple[int, ...]:
        """What is not text is not said; the end only where texts have one."""
        never = unsaid(self.tokenizer)
        return never if self.ends else (*never, self.tokenizer.eos)

    @torch.inference_mode()
    def _continue(
        self,
        model: Any,
        prompts: list[list[int]],
        begun: list[list[int]],
        options: DecodeOptions,
        numbers: list[int],
        tree: BeamTree | None,
    ) -> list[list[Hypothesis]]:
        if tree is not None and options.of_one_path:
            raise InputError(f"{options.of_one_path[0]} is of one path: it grows no tree")
        state = model.start(len(prompts), [ids[:-1] for ids in prompts])
        bounds = self._bounds(prompts, begun, options)
        if (options.beam > 1 or tree is not None) and not options.sample:
            return beam_search(model, state, bounds, options, tree)
        against = output_preferences(options, prompts)
        choose = options.draw(numbers) if options.sample else walk.best
        steps = walk.walk(model, state, options.narrow(bounds), choose=choose, preferences=against)
        ending = stopping(steps, self.tokenizer.decode, options.stop)
        found = walk.gather_hypotheses(
            ending, len(prompts), eos=bounds.eos, length_penalty=options.length_penalty
        )
        return [[each] for each in found]

    def _bounds(
        self, prompts: list[list[int]], begun: list[list[int]], options: DecodeOptions
    ) -> walk.Bounds:
        """What continuations of these prompts may be; `begun` is how they have to begin."""
        return walk.Bounds(
            first=[ids[-1] for ids in prompts],
            eos=self.tokenizer.eos,
            max_lengths=output_limits(options, prompts, begun),
            constraints=output_constraints(self.unsaid, begun),
        )

    def _stopped(self, prompt: list[int], whole: Hypothesis, options: DecodeOptions) -> Hypothesis:
        """Without the tokens that lie behind the beginning of a stop string."""
        if not options.stop:
            return whole
        kept = before_stop(self.tokenizer.decode, prompt, whole.tokens, options.stop)
        if kept is None:
            return whole
        return hypothesis(
            whole.tokens[:kept], whole.token_log_probs[:kept], whole.path[:kept],
            eos=self.tokenizer.eos, length_penalty=options.length_penalty,
        )  # fmt: skip

    def _prediction(
        self, prompt: list[int], cut: bool, hypotheses: list[Hypothesis], options: DecodeOptions
    ) -> Prediction:
        decode, eos = self.tokenizer.decode, self.tokenizer.eos
        nbest = []
        for whole in hypotheses:
            each = self._stopped(prompt, whole, options)
            nbest.append(
                Prediction(
                    # Of the whole: without its end a stop string that begins in a token is not one.
                    text="".join(spoken(decode, prompt, whole.tokens, options.stop)),
                    score=each.score,
                    tokens=self.tokenizer.tokens(each.tokens + [eos] * each.finished),
                    source_tokens=self.tokenizer.tokens(prompt),
                    token_scores=each.token_log_probs,
                    truncated=cut,
                    ids=each.tokens,
                    read=len(prompt) - (prompt[0] == self.tokenizer.bos),
                    finished=whole.finished or each is not whole,  # by the end or a stop string
                )
            )
        return dataclasses.replace(nbest[0], alternatives=nbest[1:])

    def _watched(self, model: Any, prompt: list[int], made: Prediction, watch: Watch) -> Prediction:
        """With what each token looked at: the text is read once more, as it was written."""
        read = [*prompt, *made.ids]
        # There is no input to look at: all attention is within the text.
        layers = watched_layers(model, "all" if watch is True else watch)
        if not made.tokens or not layers:
            return made
        with record_attention(model, layers) as seen:
            reread(model, read)
        rows = slice(len(prompt) - 1, len(prompt) - 1 + len(made.tokens))
        weights = {name: looks(calls)[:, rows] for name, calls in seen.items()}  # (H, T, S)
        looked = AttentionMap(weights, self.tokenizer.tokens(read), made.tokens)
        return dataclasses.replace(made, attention=looked)


def _passages(examples: Plain) -> list[Passage]:
    return [Passage(*each) for each in examples["passages"]]
