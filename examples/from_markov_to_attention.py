"""From the Markov chain to attention, on the two sentences that lectures use.

A word that was said long ago decides what comes next. A chain of first order cannot see it, one of
second order sees one word more, pairs with skips see all of them but ask everybody, and a mask
listens only to those who know. Which mask to use is a product with the current word: attention.
"""

import numpy as np

from saccade.inspection.tables import mask_table, transition_table, votes_table
from saccade.models.markov import Markov, MarkovConfig

SENTENCES = [
    "check the program log and find out whether it ran please",
    "check the battery log and find out whether it ran down please",
]
WORDS = sorted({word for sentence in SENTENCES for word in sentence.split()})
QUESTION = "check the program log and find out whether it ran"


def ids(text: str) -> list[int]:
    return [WORDS.index(word) for word in text.split()]


def counted(order: int, *, skips: bool = False, selective: bool = False) -> Markov:
    config = MarkovConfig(vocab_size=len(WORDS), order=order, skips=skips, selective=selective)
    model = Markov(config)
    model.fit([np.array(ids(sentence)) for sentence in SENTENCES])
    return model


def main() -> None:
    print("1. First order: what followed each word. After 'ran' it cannot know.\n")
    print(transition_table(counted(1), WORDS).text(width=200))

    print("\n2. Second order: what followed each two words. 'it ran' still does not know.\n")
    print(transition_table(counted(2), WORDS).text(width=200))

    print(f"\n3. With skips: every earlier word of {QUESTION!r}\n   votes, paired with 'ran'.\n")
    everybody = counted(2, skips=True)
    print(votes_table(everybody, WORDS, ids(QUESTION)))

    print("\n4. Selective: the pairs that tell more than 'ran' alone, found by counting.\n")
    selective = counted(2, skips=True, selective=True)
    for pair in selective.pairs()[:2]:
        words = f"{WORDS[pair.earlier]}, {WORDS[pair.current]}"
        print(f"   ({words}) tells {pair.gain:.2f} bits beyond chance")
    print()
    print(mask_table(selective, WORDS))
    print()
    print(votes_table(selective, WORDS, ids(QUESTION)))

    print("\n5. The same as matrix products: one-hot query times the stack of masks.\n")
    attention = selective.attention(ids(QUESTION))
    asked = (attention.queries @ attention.masks)[-1]
    print("   the mask of 'ran'   ", named(asked.tolist()))
    print("   what it has read    ", named(attention.memory[-1].tolist()))
    print("   both                ", named(attention.kept[-1].tolist()))
    print("   times the values    ", named(attention.votes[-1].tolist()))
    assert attention.votes[-1].tolist() == selective.votes(ids(QUESTION)).tolist()


def named(numbers: list[float]) -> str:
    return ", ".join(f"{word} {n:g}" for word, n in zip(WORDS, numbers, strict=True) if n)


if __name__ == "__main__":
    main()
