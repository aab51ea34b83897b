"""Their safetensors, in one file or in several with an index; nothing that is pickled is read."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from saccade.errors import InputError
from saccade.interop.architectures import Architecture, Weight
from saccade.training.checkpoint import read_object

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
UNREAD = ("pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack")
FLOATS = ("F32", "F16", "BF16")  # all of them are exact as 32 bits


def weight_files(folder: Path) -> list[Path]:
    """The files that hold the weights."""
    if (folder / WHOLE).is_file():
        return [folder / WHOLE]
    if (folder / INDEX).is_file():
        return _listed(folder / INDEX)
    for name in UNREAD:
        if (folder / name).exists():
            raise InputError(
                f"{folder / name}: a format that may run code or is not read here. If you trust "
                "it, convert it where transformers is installed:\n"
                '  python -c "from transformers import AutoModelForCausalLM as M; '
                f"M.from_pretrained('{folder}').save_pretrained('{folder}-safe')\"\n"
                f"and copy the tokenizer's files from {folder} to it"
            )
    raise InputError(f"{folder}: no weights in it; looked for {WHOLE} and {INDEX}")


def _listed(index: Path) -> list[Path]:
    places = read_object(index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise InputError(f"{index}: has no weight_map")
    for place in places.values():
        plain = isinstance(place, str) and re.fullmatch(r"\w[\w.-]*\.safetensors", place)
        if not plain:  # a name is of this folder
            raise InputError(f"{index}: {place!r} is not the name of a safetensors file")
        if not (index.parent / place).is_file():
            raise InputError(f"{index}: names {place}, which is not there")
    return [index.parent / name for name in sorted(set(places.values()))]


def checksums(files: Iterable[Path]) -> dict[str, str]:
    """The sha256 of each file."""
    found = {}
    for path in files:
        with path.open("rb") as file:
            found[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


class TheirWeights:
    """The tensors of some files by their full name; read one by one, when they are asked for."""

    def __init__(self, files: list[Path], architecture: Architecture, stack: ExitStack):
        self.place, self.architecture = files[0].parent, architecture
        self.files: dict[str, tuple[Any, str]] = {}  # the open file and the name in it
        opened = [stack.enter_context(_open(path)) for path in files]
        names = [(file, name) for file in opened for name in file.keys()]  # noqa: SIM118
        # The body may have been kept alone, without the name it has in the whole.
        bare = not any(name.startswith(architecture.prefix) for _, name in names)
        for file, name in names:
            full = architecture.prefix + name if bare and name not in architecture.tied else name
            if full in self.files:
                raise InputError(f"{self.place}: {name} is in two files")
            self.files[full] = (file, name)

    def check_names(self, layout: Iterable[Weight]) -> None:
        """Nothing is missing, nothing is left over; ends at the first that is."""
        wanted, what = set(), self.architecture.class_name
        for name in (name for weight in layout for name in weight.theirs):
            if name not in self.files:
                raise InputError(f"{self.place}: lacks {name}, which {what} of its config.json has")
            wanted.add(name)
        for name in sorted(self.files.keys() - wanted - self.architecture.tied.keys()):
            if not re.fullmatch(self.architecture.buffers, name):
                raise InputError(f"{self.place}: has {name}, which {what} of its config.json lacks")

    def check_shapes(self, layout: Iterable[Weight], shapes: Mapping[str, Tensor]) -> None:
        """All have the shape that the model has, and are floats; nothing is read yet."""
        for weight in layout:
            first, *rest = shapes[weight.ours].shape
            shape = [first // len(weight.theirs), *rest]
            for name in weight.theirs:
                file, inner = self.files[name]
                view = file.get_slice(inner)
                if view.get_dtype() not in FLOATS:
                    known = ", ".join(FLOATS)
                    raise InputError(f"{self.place}: {name} is {view.get_dtype()}, not {known}")
                wanted = shape[::-1] if weight.turned else shape
                if view.get_shape() != wanted:
                    raise InputError(
                        f"{self.place}: {name} is {view.get_shape()}; by config.json it is {wanted}"
                    )

    def read(self, layout: Iterable[Weight]) -> dict[str, Tensor]:
        """Our tensors; what is tied must be equal."""
        ours = {each.ours: each.joined([self._tensor(n) for n in each.theirs]) for each in layout}
        for name, same in self.architecture.tied.items():
            if name in self.files and not torch.equal(self._tensor(name), ours[same]):
                raise InputError(
                    f"{self.place}: {name} is not the embedding, though tie_word_embeddings says "
                    "so; saccade has only tied ones"
                )
        return ours

    def _tensor(self, name: str) -> Tensor:
        file, inner = self.files[name]
        tensor: Tensor = file.get_tensor(inner)
        return tensor.float()


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except SafetensorError as error:
        raise InputError(f"{path}: not a valid safetensors file: {error}") from None


def their_weights(ours: Mapping[str, Tensor], layout: Iterable[Weight]) -> dict[str, Tensor]:
    """Our tensors as they name and turn them; a bias that we lack is zero."""
    found: dict[str, Tensor] = {}
    for weight in layout:
        tensor = ours.get(weight.ours)
        if tensor is None:
            assert weight.ours.endswith(".bias"), weight.ours
            tensor = torch.zeros(len(ours[weight.ours.removesuffix("bias") + "weight"]))
        found |= weight.parted(tensor)
    return found
