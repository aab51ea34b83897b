"""The tree a beam search grew: every candidate it considered, for the explorer to draw."""

from collections.abc import Mapping
from dataclasses import dataclass, field

ROOT = -1


@dataclass(slots=True)
class BeamNode:
    """One candidate: `token` after the path `parent` (an index of the tree's nodes, or ROOT)."""

    sentence: int
    step: int
    parent: int
    token: int
    log_prob: float  # of the whole path
    kept: bool  # among the best of its step by length-normalised score
    finished: bool  # its token is the end
    returned: bool = False  # on the path of a returned hypothesis


@dataclass(slots=True)
class BeamTree:
    """Hand an empty one to `beam_search`, which fills it."""

    nodes: list[BeamNode] = field(default_factory=list)

    def add(self, node: BeamNode) -> int:
        """Append a candidate; its index."""
        self.nodes.append(node)
        return len(self.nodes) - 1

    def stepped(self, best: Mapping[int, int]) -> None:
        """Told after every step: where the best path so far ends, by sentence still searched."""

    def path(self, index: int) -> list[int]:
        """The nodes from the first token to this one."""
        found = []
        while index != ROOT:
            found.append(index)
            index = self.nodes[index].parent
        return found[::-1]

    def mark(self, index: int) -> None:
        """Say that the hypothesis that ends here is returned."""
        for place in self.path(index):
            self.nodes[place].returned = True

    def of(self, sentence: int) -> list[BeamNode]:
        """The candidates of one sentence, in the order in which they were considered."""
        return [node for node in self.nodes if node.sentence == sentence]
