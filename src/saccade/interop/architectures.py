"""How an architecture of Hugging Face and a model of ours say the same thing: tables, no code.

One entry of `ARCHITECTURES` is all that a further one needs.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from saccade.errors import InputError, nearest


@dataclass(frozen=True, slots=True)
class Key:
    """A key of their config that is a setting of ours."""

    theirs: str
    ours: str
    default: Any  # what they mean when it is absent
    names: Mapping[str, str] | None = None  # their values to ours, where these are names

    def read(self, value: Any, where: str) -> Any:
        """Our value for theirs; absent (None) where that is their default."""
        if value is None and self.default is None:
            return None
        if self.names is None:
            kinds = (int, float) if isinstance(self.default, float) else (int,)
            if not isinstance(value, kinds) or isinstance(value, bool):
                wanted = "a number" if float in kinds else "an integer"
                raise InputError(f"{where}: {self.theirs} is {value!r}; expected {wanted}")
            return value
        if not isinstance(value, str) or value not in self.names:
            hint = nearest(str(value), self.names)
            raise InputError(f"{where}: {self.theirs} is {value!r}, not known here; {hint}")
        return self.names[value]


@dataclass(frozen=True, slots=True)
class Weight:
    """A tensor of ours, and what it is made of: theirs one below the other, perhaps turned."""

    ours: str
    theirs: tuple[str, ...]
    turned: bool = False  # they multiply from the right

    def joined(self, parts: list[Tensor]) -> Tensor:
        return torch.cat([part.T if self.turned else part for part in parts]).contiguous()

    def parted(self, tensor: Tensor) -> dict[str, Tensor]:
        parts = tensor.chunk(len(self.theirs))
        turned = [part.T if self.turned else part for part in parts]
        return {name: part.contiguous() for name, part in zip(self.theirs, turned, strict=True)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Architecture:
    """All there is to know about one of theirs."""

    class_name: str  # theirs
    pipeline: str  # what their hub calls its use
    task: str  # ours
    model: str
    keys: tuple[Key, ...]
    only: Mapping[str, Any]  # keys that change what is computed, with the one value we have
    idle: frozenset[str]  # keys that change nothing here
    aliases: Mapping[str, str] = field(default_factory=dict)  # other names of keys
    same: Mapping[str, str] = field(default_factory=dict)  # keys that ought to equal another
    ours_only: Mapping[str, Any]  # settings that change what is computed, with their one value
    ours_idle: frozenset[str]  # settings that change nothing in a model that has its weights
    weights: Callable[[Mapping[str, Any]], Iterator[Weight]]  # for settings of ours
    prefix: str  # of their names, where the body is part of a larger model
    tied: Mapping[str, str]  # a name of theirs to what it equals, and may be absent
    buffers: str  # a pattern of names that are no weights

    def settings(self, config: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Our model's settings; what we do not have is refused."""
        config = {self.aliases.get(key, key): value for key, value in config.items()}
        for key, value in self.only.items():
            if config.get(key, value) != value:
                raise InputError(f"{where}: {key} is {config[key]!r}; saccade has only {value!r}")
        found = dict(self.ours_only)
        for key in self.keys:
            value = key.read(config.get(key.theirs, key.default), where)
            if value is not None:
                found[key.ours] = value
        return found

    def unknown(self, config: Mapping[str, Any]) -> list[str]:
        """Keys that nobody here has heard of."""
        known = {key.theirs for key in self.keys} | self.only.keys() | self.idle | GENERAL
        return sorted(config.keys() - known - self.aliases.keys() - self.same.keys())

    def unequal(self, config: Mapping[str, Any]) -> list[str]:
        """Keys that differ from the key whose setting they share."""
        defaults = {key.theirs: key.default for key in self.keys}
        return [
            f"{key} is {config[key]}, {other} is {config.get(other, defaults[other])}"
            for key, other in self.same.items()
            if key in config and config[key] != config.get(other, defaults[other])
        ]

    def config(self, settings: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Their config of our model's settings; what they do not have is refused."""
        for name, value in self.ours_only.items():
            if settings[name] != value:
                raise InputError(
                    f"{where}: model.{name} is {settings[name]!r}; {self.class_name} has only "
                    f"{value!r}"
                )
        known = {key.ours for key in self.keys} | self.ours_only.keys() | self.ours_idle
        for name in sorted(settings.keys() - known):
            raise InputError(f"{where}: model.{name} is nothing that {self.class_name} has")
        found = dict(self.only)
        for key in self.keys:
            value = settings.get(key.ours)
            if key.names is not None:
                value = next(theirs for theirs, ours in key.names.items() if ours == value)
            found[key.theirs] = value
        return {**found, **{key: found[other] for key, other in self.same.items()}}


# Of every config: where it comes from, how it was kept, what its output looks like, and heads that
# a language model does not have.
GENERAL = frozenset(
    {
        "architectures", "model_type", "transformers_version", "_name_or_path", "torch_dtype",
        "dtype", "use_cache", "vocab_size", "bos_token_id", "eos_token_id", "pad_token_id",
        "sep_token_id", "unk_token_id", "tokenizer_class", "task_specific_params",
        "output_attentions", "output_hidden_states", "return_dict", "id2label", "label2id",
        "problem_type", "num_labels", "finetuning_task", "use_bfloat16", "torchscript",
        "is_decoder", "is_encoder_decoder", "chunk_size_feed_forward", "prefix",
        "gradient_checkpointing", "_attn_implementation_autoset", "attn_implementation",
        "output_past",
    }
)  # fmt: skip

ACTIVATIONS = {  # the first of several names is the one that is written
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}


def _gpt2_weights(settings: Mapping[str, Any]) -> Iterator[Weight]:
    """Their linear maps are Conv1D, which multiplies from the right."""
    yield Weight("embedding.weight", ("transformer.wte.weight",))
    yield Weight("positions.weight", ("transformer.wpe.weight",))
    parts = {  # ours to theirs, and whether turned
        "around_attention.norm": ("ln_1", False),
        "attention.query_key_value": ("attn.c_attn", True),
        "attention.output": ("attn.c_proj", True),
        "around_ffn.norm": ("ln_2", False),
        "ffn.expand": ("mlp.c_fc", True),
        "ffn.contract": ("mlp.c_proj", True),
    }
    for number in range(settings["layers"]):
        for ours, (theirs, turned) in parts.items():
            mine, others = f"layers.{number}.{ours}", f"transformer.h.{number}.{theirs}"
            yield Weight(f"{mine}.weight", (f"{others}.weight",), turned)
            yield Weight(f"{mine}.bias", (f"{others}.bias",))
    yield Weight("norm.weight", ("transformer.ln_f.weight",))
    yield Weight("norm.bias", ("transformer.ln_f.bias",))


GPT2 = Architecture(
    class_name="GPT2LMHeadModel",
    pipeline="text-generation",
    task="generate",
    model="gpt",
    keys=(
        Key("n_embd", "dim", 768),
        Key("n_layer", "layers", 12),
        Key("n_head", "heads", 12),
        Key("n_positions", "context", 1024),
        Key("n_inner", "ffn_dim", None),
        Key("activation_function", "activation", "gelu_new", ACTIVATIONS),
        Key("resid_pdrop", "dropout", 0.1),
        Key("attn_pdrop", "attention_dropout", 0.1),
    ),
    only={
        "layer_norm_epsilon": 1e-5,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "add_cross_attention": False,
        "tie_word_embeddings": True,
    },
    idle=frozenset(
        {
            "n_ctx", "initializer_range", "reorder_and_upcast_attn", "summary_type",
            "summary_use_proj", "summary_activation", "summary_proj_to_labels",
            "summary_first_dropout",
        }
    ),
    aliases={
        "hidden_size": "n_embd",
        "max_position_embeddings": "n_positions",
        "num_attention_heads": "n_head",
        "num_hidden_layers": "n_layer",
    },
    same={"embd_pdrop": "resid_pdrop"},
    ours_only={"placement": "pre"},
    ours_idle=frozenset({"bias", "scaled_init"}),  # without bias: theirs are zero
    weights=_gpt2_weights,
    prefix="transformer.",
    tied={"lm_head.weight": "embedding.weight"},
    buffers=r"transformer\.h\.\d+\.attn\.(masked_)?bias",
)  # fmt: skip

ARCHITECTURES = {"gpt2": GPT2}  # by their model_type
