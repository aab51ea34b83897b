"""From tokens as they come to text as people read it: no half letters, nothing after a stop."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

from saccade.decoding.walk import Step

Decode = Callable[[Sequence[int]], str]
BROKEN = "\ufffd"  # what a letter looks like of which not all bytes are there


def spoken(
    decode: Decode, before: Sequence[int], tokens: Iterable[int], stops: Sequence[str] = ()
) -> Iterator[str]:
    """The text of `tokens`, which follow `before`, piece by piece, up to the first stop string.

    What may be the beginning of a stop string waits until that is decided.
    """
    held = ""
    for piece in _pieces(decode, list(before), tokens):
        held += piece
        end = first_stop(held, stops)
        if end is not None:
            if held[:end]:
                yield held[:end]
            return
        waiting = _beginning(held, stops)
        if len(held) > waiting:
            yield held[: len(held) - waiting]
            held = held[len(held) - waiting :]
    if held:
        yield held


def before_stop(
    decode: Decode, before: Sequence[int], tokens: Sequence[int], stops: Sequence[str]
) -> int | None:
    """How many of `tokens` the text up to the first stop string takes; None if there is none."""
    text, whole = ("".join(spoken(decode, before, tokens, each)) for each in (stops, ()))
    if text == whole:
        return None
    left, ahead = len(text), iter(tokens)
    pieces = _pieces(decode, list(before), ahead)
    while left > 0:
        left -= len(next(pieces))
    return len(tokens) - len(list(ahead))


def first_stop(text: str, stops: Sequence[str]) -> int | None:
    """Where the first stop string begins; None if there is none."""
    found = [place for place in map(text.find, stops) if place >= 0]
    return min(found, default=None)


def stopping(
    steps: Generator[Step, list[int] | None, None], decode: Decode, stops: Sequence[str]
) -> Iterator[Step]:
    """The steps of a walk, in which a sentence ends once its text holds a stop string."""
    if not stops:
        yield from steps
        return
    # A letter is at most four tokens: so many hold every stop string that ends with the newest.
    reach = 4 * max(map(len, stops)) + 4
    newest: dict[int, list[int]] = {}
    step = next(steps, None)
    while step is not None:
        yield step
        ended = []
        for sentence, token in zip(step.sentences, step.tokens, strict=True):
            tail = newest[sentence] = [*newest.get(sentence, ())[-reach:], token]
            if first_stop(decode(tail), stops) is not None:
                ended.append(sentence)
        try:
            step = steps.send(ended)
        except StopIteration:
            return


def _pieces(decode: Decode, tokens: list[int], more: Iterable[int]) -> Iterator[str]:
    """What each token adds; only the newest are decoded again, so length costs nothing."""
    said = max(0, len(tokens) - 16)  # from here on decoded for what stands before
    read = len(tokens)
    for token in more:
        tokens.append(token)
        shown, whole = decode(tokens[said:read]), decode(tokens[said:])
        if len(whole) > len(shown) and whole.startswith(shown) and not whole.endswith(BROKEN):
            yield whole[len(shown) :]
            said, read = read, len(tokens)
    rest = decode(tokens[said:]).removeprefix(decode(tokens[said:read]))
    if rest:
        yield rest


def _beginning(text: str, stops: Sequence[str]) -> int:
    """How many of the last characters may begin a stop string."""
    longest = 0
    for stop in stops:
        for size in range(min(len(stop) - 1, len(text)), longest, -1):
            if text.endswith(stop[:size]):
                longest = size
                break
    return longest
