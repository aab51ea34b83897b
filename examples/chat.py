"""A small chat: a language model that learned turns, asked in turn. The talk is generated.

A document is one talk: a line a turn, "you:" and "bot:" by turns, and it ends when they part. What
was said before stands in the prompt, so the bot can remember a name; the end of the line stops it.
About four minutes on two cores; SACCADE_QUICK=1 makes two updates only.
"""

import json
import os
import random
import sys
from pathlib import Path

import saccade

QUICK = os.environ.get("SACCADE_QUICK", "") not in ("", "0")
OUT = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/chat")
NAMES = ["Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gita", "Hugo"]
CAPITALS = {"France": "Paris", "Italy": "Rome", "Japan": "Tokyo", "Kenya": "Nairobi"}
NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight"]


def question(draw: random.Random, name: str) -> tuple[str, str]:
    """Something to ask, and the answer."""
    land, (a, b) = draw.choice([*CAPITALS]), (draw.randint(0, 4), draw.randint(0, 4))
    return draw.choice([
        (f"What is the capital of {land}?", f"{CAPITALS[land]}."),
        (f"How much is {NUMBERS[a]} and {NUMBERS[b]}?", f"That is {NUMBERS[a + b]}."),
        ("Who am I?", f"You are {name}."),
    ])  # fmt: skip


def talk(draw: random.Random) -> str:
    name = draw.choice(NAMES)
    turns = [(f"Hello, I am {name}.", f"Hello {name}, how can I help?")]
    turns += [question(draw, name) for _ in range(draw.randint(1, 4))]
    turns.append(("Goodbye.", f"Goodbye, {name}."))
    return "\n".join(f"you: {said}\nbot: {answer}" for said, answer in turns)


def write(path: Path, count: int, seed: int) -> str:
    draw = random.Random(seed)
    rows = [json.dumps({"text": talk(draw)}) + "\n" for _ in range(count)]
    path.write_text("".join(rows), encoding="utf-8")
    return str(path)


OUT.mkdir(parents=True, exist_ok=True)
run = saccade.train(
    "generate",
    model="gpt",
    train=write(OUT / "train.jsonl", 200 if QUICK else 10_000, seed=1),
    dev=None if QUICK else write(OUT / "dev.jsonl", 200, seed=2),
    out=OUT / "run",
    steps=2 if QUICK else None,
    minutes=None if QUICK else 4.0,
    config={"task": {"vocab_size": 400, "context": 192}},
)
model = saccade.load(run)
options = saccade.DecodeOptions(beam=1, length=10 if QUICK else 40, stop=("\n",))

said = ""
asked = ["Hello, I am Ada.", "How much is two and three?", "Who am I?", "Goodbye."]
typing = sys.stdin.isatty() and not QUICK
for turn in iter(lambda: input("you: "), "") if typing else asked:
    said += f"you: {turn}\nbot:"
    answer = model.predict([said], options)[0].text
    said += f"{answer}\n"
    print(f"bot:{answer}" if typing else f"you: {turn}\nbot:{answer}")
