"""GPT-2 folders as transformers writes them, so small that making one takes a moment."""

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

END = "<|endoftext|>"
LINES = ["the cat sat on the mat, and the dog ate it all. ", "Été à la plage: 3,50 €! I've 'em "]
TEXTS = [
    "the cat sat", " the  cat\n\nsat\t on", "", "\n", "   ", "Été — naïve façade", "🙂 👩‍👩‍👧 ok",
    "日本語のテキスト", "I've we'll 's 123,456.78", "a\r\nb\u2028c\u00a0d", "\x00\x7f", "cat" * 50,
    "def f(x):\n    return x", "ﬁ ℌ e\u0301", "\ufeffx",
]  # fmt: skip


def bpe(size: int = 320) -> Tokenizer:
    """As GPT-2's: bytes, merged; one control token, last, as theirs is."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(LINES * 5, trainer)
    inner.add_special_tokens([END])
    return inner


def write_tokenizer(folder: Path, inner: Tokenizer, **told: Any) -> None:
    controls = {"bos_token": END, "eos_token": END, "unk_token": END}
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, **{**controls, **told})
    fast.save_pretrained(folder)


def write_old_tokenizer(folder: Path, inner: Tokenizer, **told: Any) -> None:
    """vocab.json with the end in it, and merges.txt."""
    inner.model.save(str(folder))
    change_json(folder / "vocab.json", **{END: inner.token_to_id(END)})
    (folder / "tokenizer_config.json").unlink(missing_ok=True)
    change_json(folder / "tokenizer_config.json", tokenizer_class="GPT2Tokenizer", **told)


def gpt2(vocab_size: int, **told: Any) -> transformers.GPT2LMHeadModel:
    """Random weights, large enough to tell apart; no bias is zero and no norm one."""
    end = told.pop("end", vocab_size - 1)
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 64}
    config = transformers.GPT2Config(
        vocab_size=vocab_size, bos_token_id=end, eos_token_id=end, initializer_range=0.3,
        **{**sizes, **told},
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def write_folder(folder: Path, **told: Any) -> transformers.GPT2LMHeadModel:
    """A whole folder; its model."""
    inner = bpe()
    size = inner.get_vocab_size()
    model = gpt2(told.pop("vocab_size", size), end=size - 1, **told)
    model.save_pretrained(folder)
    write_tokenizer(folder, inner)
    return model


def change_json(path: Path, **values: Any) -> None:
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**content, **values}))


def greedy(model: Any, tokenizer: Any, prompts: list[str], size: int) -> list[list[int]]:
    """What their `generate` appends to each prompt, all in one batch, without the end."""
    tokenizer.padding_side = "left"
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    batch = tokenizer(prompts, return_tensors="pt", padding=True, return_token_type_ids=False)
    with torch.no_grad():
        rows = model.generate(
            **batch, do_sample=False, max_new_tokens=size, pad_token_id=tokenizer.pad_token_id
        )
    found = []
    for row in rows[:, batch["input_ids"].shape[1] :].tolist():
        end = tokenizer.eos_token_id
        found.append(row[: row.index(end)] if end in row else row)
    return found


def fast(folder: Path) -> Any:
    return transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)


def theirs(folder: Path) -> Any:
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
    return model.eval()
