"""Shapes without numbers, without the seconds that torch's compiler takes to import."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import sys
from saccade.blocks.meta import shapes_only
from saccade.cli.models import parameters
from saccade.models import MODELS
from torch import empty

with shapes_only():
    assert empty(2, 3).normal_().device.type == "meta"
assert empty(2, 3).zero_().normal_().any()  # outside, numbers are drawn
for name in ("transformer", "gpt", "transformer-xl", "rnn", "seq2seq"):
    assert parameters(MODELS[name], {}) > 1000, name
assert "torch._dynamo" not in sys.modules
"""


@pytest.mark.serial
def test_models_are_sized_without_the_compiler() -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    subprocess.run([sys.executable, "-c", CODE], check=True, env=environment)
