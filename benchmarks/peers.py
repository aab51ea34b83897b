"""The peers, in saccade's sizes: for training with fresh weights, for decoding with saccade's own.

Hugging Face has two classes of the paper's architecture: Marian norms after a sublayer, Pegasus
before it (the code is otherwise the same). Training is measured against Marian; in decoding the
outputs must agree, so the class is the one that computes what the run's model computes.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from saccade.blocks.masks import causal_mask
from saccade.blocks.positions import Sinusoidal
from saccade.models.gpt import GPTConfig
from saccade.models.transformer import TransformerConfig

POSITIONS = 1024  # that a peer's table holds


def marian(config: TransformerConfig, pad: int, bos: int, eos: int) -> nn.Module:
    """Hugging Face's model for translation, weights random."""
    return _hugging_face("post", config, pad, bos, eos)


def hugging_face(model: Any, pad: int, bos: int, eos: int) -> nn.Module:
    """The Hugging Face model that computes what `model` computes, with its weights."""
    _check(model.config)
    twin = _hugging_face(model.config.placement, model.config, pad, bos, eos).eval()
    named = twin.state_dict()
    for name, tensor in _hugging_face_weights(model).items():
        assert named[name].shape == tensor.shape, name
        named[name].copy_(tensor)
    return twin


def _hugging_face(
    placement: str, config: TransformerConfig, pad: int, bos: int, eos: int
) -> nn.Module:
    from transformers import (
        MarianConfig,
        MarianMTModel,
        PegasusConfig,
        PegasusForConditionalGeneration,
    )

    classes: dict[str, tuple[Any, Any]] = {
        "post": (MarianConfig, MarianMTModel),
        "pre": (PegasusConfig, PegasusForConditionalGeneration),
    }
    config_class, model_class = classes[placement]
    assert config.source_vocab_size == config.target_vocab_size
    layers, heads, ffn = config.layers, config.heads, config.ffn_dim
    sizes = config_class(
        vocab_size=config.target_vocab_size,
        d_model=config.dim,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=ffn,
        decoder_ffn_dim=ffn,
        dropout=config.dropout,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=POSITIONS,
        pad_token_id=pad,
        bos_token_id=bos,
        eos_token_id=eos,
        decoder_start_token_id=bos,
        forced_eos_token_id=None,
    )
    sizes._attn_implementation = "sdpa"
    twin: nn.Module = model_class(sizes)
    return twin


def _hugging_face_weights(model: Any) -> dict[str, Tensor]:
    """Saccade's weights under Hugging Face's names; a bias it does not have is zero."""
    table = model.positions.first(POSITIONS)
    found: dict[str, Tensor] = {}
    for name in ("shared", "encoder.embed_tokens", "decoder.embed_tokens"):
        found[f"model.{name}.weight"] = model.target_embedding.weight
    found["lm_head.weight"] = model.target_embedding.weight
    for side in ("encoder", "decoder"):
        found[f"model.{side}.embed_positions.weight"] = table
        _add(found, f"model.{side}.layer_norm", getattr(model, f"{side}_norm"))
        for number, layer in enumerate(getattr(model, side)):
            place = f"model.{side}.layers.{number}"
            packed = layer.attention.query_key_value
            _add_split(found, f"{place}.self_attn", packed, ("q_proj", "k_proj", "v_proj"))
            _add(found, f"{place}.self_attn.out_proj", layer.attention.output)
            _add(found, f"{place}.self_attn_layer_norm", layer.around_attention.norm)
            _add(found, f"{place}.fc1", layer.ffn.expand)
            _add(found, f"{place}.fc2", layer.ffn.contract)
            _add(found, f"{place}.final_layer_norm", layer.around_ffn.norm)
            if side == "decoder":
                cross, there = layer.cross_attention, f"{place}.encoder_attn"
                _add(found, f"{there}.q_proj", cross.query)
                _add_split(found, there, cross.key_value, ("k_proj", "v_proj"))
                _add(found, f"{there}.out_proj", cross.output)
                _add(found, f"{there}_layer_norm", layer.around_cross_attention.norm)
    return found


def _add(found: dict[str, Tensor], name: str, part: Any) -> None:
    if isinstance(part, nn.Identity):  # the last norm of a post-norm stack
        return
    found[f"{name}.weight"] = part.weight.detach()
    found[f"{name}.bias"] = _bias(part)


def _add_split(
    found: dict[str, Tensor], place: str, packed: nn.Linear, names: tuple[str, ...]
) -> None:
    weights = packed.weight.detach().chunk(len(names))
    for name, weight, bias in zip(names, weights, _bias(packed).chunk(len(names)), strict=True):
        found[f"{place}.{name}.weight"], found[f"{place}.{name}.bias"] = weight, bias


def _bias(part: Any) -> Tensor:
    return torch.zeros(len(part.weight)) if part.bias is None else part.bias.detach()


class TorchTransformer(nn.Module):
    """torch.nn.Transformer with embeddings, sinusoidal positions and a tied output around it."""

    def __init__(self, config: TransformerConfig, pad: int):
        super().__init__()
        self.pad = pad
        self.embedding = nn.Embedding(config.target_vocab_size, config.dim)
        nn.init.normal_(self.embedding.weight, std=config.dim**-0.5)
        self.positions = Sinusoidal(config.dim)
        self.dropout = nn.Dropout(config.dropout)
        self.scale = config.dim**0.5
        self.inner = nn.Transformer(
            d_model=config.dim,
            nhead=config.heads,
            num_encoder_layers=config.layers,
            num_decoder_layers=config.layers,
            dim_feedforward=config.ffn_dim,
            dropout=config.dropout,
            batch_first=True,
            norm_first=config.placement == "pre",
        )

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits; torch's masks are True where one may not attend."""
        padding = source == self.pad
        hidden = self.inner(
            self._embed(source),
            self._embed(target),
            tgt_mask=~causal_mask(target.shape[1]),
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return hidden @ self.embedding.weight.mT

    def _embed(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) * self.scale + self.positions.first(tokens.shape[1])
        dropped: Tensor = self.dropout(x)
        return dropped


def gpt2(config: GPTConfig) -> nn.Module:
    """Hugging Face's GPT-2 of this size, weights random."""
    from transformers import GPT2Config, GPT2LMHeadModel

    expected = {"placement": "pre", "activation": "gelu-tanh", "bias": True}
    for name, value in expected.items():
        assert getattr(config, name) == value, f"GPT-2 has {name} = {value}"
    sizes = GPT2Config(
        vocab_size=config.vocab_size,
        n_positions=config.context,
        n_embd=config.dim,
        n_layer=config.layers,
        n_head=config.heads,
        n_inner=config.ffn_dim,
        resid_pdrop=config.dropout,
        embd_pdrop=config.dropout,
        attn_pdrop=config.attention_dropout,
        bos_token_id=None,
        eos_token_id=None,
    )
    sizes._attn_implementation = "sdpa"
    twin: nn.Module = GPT2LMHeadModel(sizes)
    return twin


@torch.no_grad()
def gpt2_twin(model: Any) -> nn.Module:
    """The same with the weights of `model`, so that both say the same."""
    twin = gpt2(model.config).eval()
    inner: Any = twin.transformer
    inner.wte.weight.copy_(model.embedding.weight)  # the output's, too
    inner.wpe.weight.copy_(model.positions.first(model.config.context))
    parts = [(inner.ln_f, model.norm)]
    for theirs, ours in zip(inner.h, model.layers, strict=True):
        parts += [
            (theirs.ln_1, ours.around_attention.norm),
            (theirs.attn.c_attn, ours.attention.query_key_value),
            (theirs.attn.c_proj, ours.attention.output),
            (theirs.ln_2, ours.around_ffn.norm),
            (theirs.mlp.c_fc, ours.ffn.expand),
            (theirs.mlp.c_proj, ours.ffn.contract),
        ]
    for theirs, ours in parts:  # its matrices stand the other way round
        theirs.weight.copy_(ours.weight.mT if ours.weight.ndim == 2 else ours.weight)
        theirs.bias.copy_(ours.bias)
    return twin


def ctranslate2_model(
    model: Any, tokens: list[str], specials: tuple[str, str, str], folder: Path
) -> Path:
    """Write `model` as a CTranslate2 folder; `specials` are the names of unk, bos and eos."""
    import ctranslate2
    from ctranslate2.specs import TransformerSpec
    from ctranslate2.specs.common_spec import Activation

    config = model.config
    _check(config)
    spec = TransformerSpec.from_config(
        (config.layers, config.layers),
        config.heads,
        pre_norm=config.placement == "pre",
        activation=Activation.RELU,
    )
    for side, embeddings in (("encoder", spec.encoder.embeddings[0]),
                             ("decoder", spec.decoder.embeddings)):  # fmt: skip
        target, stack = getattr(spec, side), getattr(model, side)
        embeddings.weight = _numbers(model.target_embedding.weight)
        target.position_encodings.encodings = _numbers(model.positions.first(POSITIONS))
        if config.placement == "pre":
            _fill_norm(target.layer_norm, getattr(model, f"{side}_norm"))
        for into, layer in zip(target.layer, stack, strict=True):
            _fill_layer(into, layer)
    spec.decoder.projection.weight = _numbers(model.output_weight)
    unk, bos, eos = specials
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = unk, bos, eos
    spec.config.decoder_start_token = bos
    spec.config.add_source_bos = spec.config.add_source_eos = False
    spec.validate()
    spec.optimize()  # float32 on disk: int8 is made when it is loaded
    spec.save(str(folder))
    assert ctranslate2.contains_model(str(folder))
    return folder


def _fill_layer(into: Any, layer: Any) -> None:
    _fill(into.self_attention.linear[0], layer.attention.query_key_value)
    _fill(into.self_attention.linear[1], layer.attention.output)
    _fill_norm(into.self_attention.layer_norm, layer.around_attention.norm)
    if hasattr(layer, "cross_attention"):
        _fill(into.attention.linear[0], layer.cross_attention.query)
        _fill(into.attention.linear[1], layer.cross_attention.key_value)
        _fill(into.attention.linear[2], layer.cross_attention.output)
        _fill_norm(into.attention.layer_norm, layer.around_cross_attention.norm)
    _fill(into.ffn.linear_0, layer.ffn.expand)
    _fill(into.ffn.linear_1, layer.ffn.contract)
    _fill_norm(into.ffn.layer_norm, layer.around_ffn.norm)


def _fill(spec: Any, linear: nn.Linear) -> None:
    spec.weight = _numbers(linear.weight)
    if linear.bias is not None:
        spec.bias = _numbers(linear.bias)


def _fill_norm(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = _numbers(norm.weight), _numbers(norm.bias)


def _numbers(tensor: Tensor) -> np.ndarray:
    """A copy: conversion may rescale what it is given in place."""
    return tensor.detach().numpy().copy()


def _check(config: TransformerConfig) -> None:
    """What the peers can compute: the presets can; a run with other parts is told so."""
    expected = {"norm": "layer", "score": "scaled-dot", "activation": "relu"}
    for name, value in expected.items():
        if getattr(config, name) != value:
            raise SystemExit(f"the peers compute {name} = {value}, the run has another")
    if config.placement not in {"pre", "post"}:
        raise SystemExit(f"the peers know pre- and post-norm, not {config.placement}")


def translator(folder: Path, precision: str, workers: int) -> Any:
    """CTranslate2's engine: so many workers of one thread each."""
    import ctranslate2

    return ctranslate2.Translator(
        str(folder), compute_type=precision, inter_threads=workers, intra_threads=1
    )
