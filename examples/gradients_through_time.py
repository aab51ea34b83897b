"""How far back does a gradient reach? Each recurrent cell, clipped, and with attention.

A second or two. Writes gradients.png, or the file you name: PNG or SVG.
"""

import sys

from saccade.inspection.gradients import gradient_by_distance, gradient_picture
from saccade.inspection.pictures import save_figure

OUT = sys.argv[1] if len(sys.argv) > 1 else "gradients.png"
STEPS_BACK = [1, 10, 50, 100, 150]
KINDS = {"plain": "through time", "clipped": "clipped", "attended": "with attention"}

gradients = gradient_by_distance()

print("norm of the gradient of the loss, by steps back\n")
for kind, words in KINDS.items():
    print(f"{words:20}", *(f"{steps:>8}" for steps in STEPS_BACK))
    for name, norms in gradients.items():
        print(f"{name:20}", *(f"{getattr(norms, kind)[steps]:8.0e}" for steps in STEPS_BACK))
    print()

print("A plain cell forgets: what happened 150 steps ago does not change what it learns.")
print("Gates that are open, or attention, keep a path; clipping only makes an explosion smaller.")
print(save_figure(gradient_picture(gradients), OUT))
