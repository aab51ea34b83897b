"""What the HTTP API takes and gives: typed, limited, nothing unknown; also its documentation."""

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from saccade.decoding.options import PENALTIES, DecodeOptions

TEXT_LIMIT = 20_000  # characters of one text
TEXTS_LIMIT = 32  # texts of one request
LENGTH_LIMIT = 2048  # tokens of an output
IDS_LIMIT = 4096  # tokens of an output that is given instead of decoded
BODY_LIMIT = 1 << 20  # bytes of a request

Kind = Literal["cross", "encoder", "decoder"]
Side = Literal["source", "target", "read"]  # read: the target as its decoder sees it, a token late
Text = Annotated[str, Field(max_length=TEXT_LIMIT)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Stop = Annotated[str, Field(min_length=1, max_length=200)]
Matrix = list[list[float]]
Curve = list[tuple[float, float]]


class Strict(BaseModel):
    """Unknown fields are refused, NaN and infinity are never written."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="null")


# --- requests ---


class Decoding(Strict):
    """How to decode; what is unset is usual for the task."""

    method: Literal["greedy", "beam", "sample"] = "greedy"
    beam: Annotated[int, Field(ge=1, le=32)] | None = None
    choices: Annotated[int, Field(ge=1, le=64)] | None = None
    nbest: Annotated[int, Field(ge=1, le=32)] | None = None
    length_penalty: Annotated[FiniteFloat, Field(ge=0, le=10)] | None = None
    length: Annotated[int, Field(ge=1, le=LENGTH_LIMIT)] | None = None
    no_repeat_ngram: Annotated[int, Field(ge=0, le=64)] | None = None
    temperature: Annotated[FiniteFloat, Field(ge=0, le=100)] | None = None
    top_k: Annotated[int, Field(ge=1)] | None = None
    top_p: Annotated[FiniteFloat, Field(gt=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    repetition_penalty: Annotated[FiniteFloat, Field(ge=PENALTIES[0], le=PENALTIES[1])] | None = (
        None
    )
    stop: Annotated[list[Stop], Field(max_length=16)] | None = None

    def options(self, usual: DecodeOptions) -> DecodeOptions:
        """What was given; the rest is usual for the task."""
        given = self.model_dump(exclude={"method"}, exclude_none=True)
        if self.method == "greedy":
            given["beam"] = 1
        if self.method == "beam":  # a task that usually draws has none of its own
            given.setdefault("beam", max(usual.beam, DecodeOptions().beam))
        return replace(usual, **given, sample=self.method == "sample")


class AttentionChoice(Strict):
    """Which attentions to send; with a layer and a head, that matrix also when all are too many."""

    kinds: Annotated[list[Kind], Field(min_length=1, max_length=3)] = ["cross"]
    layer: Name | None = None
    head: Annotated[int, Field(ge=0, lt=1 << 16)] | None = None


class Input(Strict):
    """What every request about a text has: the run, how to decode, and which heads are off."""

    run: Name
    decoding: Decoding = Decoding()
    heads_off: Annotated[
        dict[Name, Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=1 << 10)]],
        Field(max_length=1 << 10),
    ] = {}
    output_ids: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=IDS_LIMIT)] | None = (
        None
    )


class PredictRequest(Input):
    """Texts to predict for; with `output_ids` the one text's output is given, only looked into."""

    texts: Annotated[list[Text], Field(min_length=1, max_length=TEXTS_LIMIT)]
    attention: AttentionChoice | None = None
    alternatives: Annotated[int, Field(ge=0, le=50)] = 0
    tree: bool = False

    @model_validator(mode="after")
    def _one_output(self) -> "PredictRequest":
        if self.output_ids is not None and len(self.texts) != 1:
            raise ValueError("output_ids needs exactly one text")
        if self.tree and (self.decoding.method == "sample" or len(self.texts) != 1):
            raise ValueError("a tree is of greedy or beam search of one text")
        return self


class ExplainRequest(Input):
    """The arithmetic of one head for one token, which stands at `token` of the asking side."""

    text: Text
    layer: Name
    head: Annotated[int, Field(ge=0, lt=1 << 16)]
    token: Annotated[int, Field(ge=0, lt=1 << 20)]


# --- answers ---


class Candidate(Strict):
    """A token that could come next, and how probable it is."""

    text: str
    id: int
    probability: float


class Token(Strict):
    """A piece of a text, the place of its word, and what the model thought before writing it."""

    text: str
    word: int
    start: int  # its characters in the text of the sentence, counted in code points
    end: int
    id: int | None = None
    given: bool = False  # of a prompt, not predicted
    probability: float | None = None
    alternatives: list[Candidate] = []


class Sentence(Strict):
    """A text with its pieces and its words; a special token is a word of its own."""

    text: str
    tokens: list[Token]
    words: list[str]


class Layer(Strict):
    """One layer's weights, (heads, rows, columns)."""

    name: str
    weights: list[Matrix]


class Attention(Strict):
    """The attentions of one kind; rows ask, columns are looked at."""

    kind: Kind
    rows: Side
    columns: Side
    causal: bool  # a row sees itself and what came before it
    scale: int  # 1, or so many rows and columns are one: the largest of them
    layers: list[Layer]
    chosen: Matrix | None = None  # when scale > 1, of the kind asked for first: the wanted head


class TreeNode(Strict):
    """A candidate of a beam search, after its `parent` (a place in the list, or -1)."""

    step: int
    parent: int
    text: str
    id: int
    probability: float  # of this token after its parent
    log_prob: float  # of the whole path
    kept: bool
    finished: bool
    returned: bool


class Prediction(Strict):
    """What a model says about one text."""

    text: str
    score: float | None
    truncated: bool  # the text was too long
    finished: bool = True  # False: the prediction was cut at its longest
    source: Sentence | None
    target: Sentence
    read: Sentence | None = None
    alternatives: list[str] = []
    attention: list[Attention] = []
    tree: list[TreeNode] = []


class PredictResponse(Strict):
    """One prediction a text, in order, and how long they took."""

    run: str
    predictions: list[Prediction]
    seconds: float


Vector = list[float | None]  # what is not finite is None


class Explanation(Strict):
    """One attention step by step; None: it has no such step. Vectors by key, then the sum's way."""

    layer: str
    head: int
    heads: int
    token: int
    query: str
    keys: list[str]
    formula: str
    q: Vector | None
    k: list[Vector] | None
    products: Vector | None
    scale: float | None
    scores: Vector | None
    allowed: list[bool] | None
    factor: Vector | None = None
    probabilities: Vector | None = None
    weights: Vector
    v: list[Vector] | None
    weighted: list[Vector] | None
    average: Vector | None
    joined: Vector | None
    output: Vector | None


class Draft(Strict):
    """An event of a stream: the output as far as it is known."""

    text: str


class Failure(Strict):
    """Every error: one sentence, and the field that caused it where there is one."""

    error: str
    field: str | None = None


class Score(Strict):
    """A metric of an evaluation, and how it was computed."""

    name: str
    value: float
    signature: str


class Heads(Strict):
    """The attentions of one kind that a model has: names of layers, heads of each."""

    kind: Kind
    layers: list[str]
    heads: list[int]


class RunSummary(Strict):
    """A loaded run."""

    name: str
    task: str  # its kind: what a page offers for it
    model: str
    preset: str
    languages: str
    parameters: int
    score: Score | None
    attention: list[Heads]
    examples: list[str]
    searches: bool  # a search of it gives a tree


class RunList(Strict):
    """What is loaded, and by which saccade."""

    version: str
    runs: list[RunSummary]


class LengthBand(Strict):
    """The examples whose text has `shortest` to `longest` words, and their scores together."""

    shortest: int
    longest: int
    examples: int
    scores: dict[str, float]


class EvaluationSummary(Strict):
    """One evaluation: its metrics, and the quality by length of the source."""

    name: str
    examples: int
    scores: list[Score]
    by_length: list[LengthBand]


class RunDetails(Strict):
    """All that the folder of a run tells."""

    summary: RunSummary
    evaluations: list[EvaluationSummary]
    curves: dict[str, Curve]
    card: str
    config: dict[str, dict[str, str]]


class Positions(Strict):
    """The vectors that are added to the first tokens: a row a position."""

    name: str
    dim: int
    rows: Matrix


class Health(Strict):
    """The server answers."""

    status: Literal["ok"] = "ok"
    version: str
    runs: int
