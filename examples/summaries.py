"""Summaries are translations: from a text to what matters in it. Reports of matches, generated.

A report has a line for each goal and much besides; its summary says who won, and how high. The
model must find the goals and count them. About four minutes on two cores; SACCADE_QUICK=1 makes
two updates only.
"""

import json
import os
import random
import sys
from pathlib import Path

import saccade

QUICK = os.environ.get("SACCADE_QUICK", "") not in ("", "0")
OUT = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/summaries")
TEAMS = ["Ajax", "Basel", "Celtic", "Dresden", "Everton", "Falkirk", "Genoa", "Hannover"]
ASIDE = [
    "It rained all afternoon.", "The crowd sang.", "A dog ran onto the pitch.",
    "Nobody was hurt.", "The referee lost his whistle.", "Tea was served at half-time.",
]  # fmt: skip


def match(draw: random.Random) -> tuple[str, str]:
    """A report, and its summary."""
    home, away = draw.sample(TEAMS, 2)
    goals = [draw.choice((home, away)) for _ in range(draw.randint(0, 4))]
    lines = [f"Minute {draw.randint(1, 90)}: a goal for {team}." for team in goals]
    lines += draw.sample(ASIDE, draw.randint(1, 3))
    draw.shuffle(lines)
    report = " ".join([f"{home} played {away}.", *lines])
    ours, theirs = goals.count(home), goals.count(away)
    if ours == theirs:
        return report, f"{home} and {away} drew {ours} to {theirs}."
    first, second = (home, away) if ours > theirs else (away, home)
    return report, f"{first} beat {second} {max(ours, theirs)} to {min(ours, theirs)}."


def write(path: Path, count: int, seed: int) -> str:
    draw = random.Random(seed)
    rows = [dict(zip(("text", "summary"), match(draw), strict=True)) for _ in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


OUT.mkdir(parents=True, exist_ok=True)
run = saccade.train(
    "translate",
    model="transformer",
    train=write(OUT / "train.jsonl", 200 if QUICK else 20_000, seed=1),
    dev=None if QUICK else write(OUT / "dev.jsonl", 200, seed=2),
    out=OUT / "run",
    steps=2 if QUICK else None,
    minutes=None if QUICK else 4.0,
    config={"task": {"columns": ["text", "summary"], "vocab_size": 400}},
)
model = saccade.load(run)
report, summary = match(random.Random(3))
print("report: ", report)
print("meant:  ", summary)
print("summary:", model(report).text)
