"""Why recurrent networks and Transformers use layer norm: batch norm in small batches and beyond.

About half a minute. SACCADE_QUICK=1 makes three updates only: enough to see every part work, too
few to learn. Writes norms.png, or the file you name: PNG or SVG.
"""

import os
import sys

from saccade.inspection.norm_study import NormStudy, norm_picture, norm_study
from saccade.inspection.pictures import save_figure

QUICK = os.environ.get("SACCADE_QUICK", "") not in ("", "0")
OUT = sys.argv[1] if len(sys.argv) > 1 else "norms.png"

study = NormStudy(updates=3) if QUICK else NormStudy()
result = norm_study(study)

print("right answers, by batch size in training; guessing gives 50 %")
print(f"{'':34}", *(f"{size:>6}" for size in study.batch_sizes))
for norm, shares in result.by_batch_size.items():
    print(f"{norm + ' norm':34}", *(f"{share:6.0%}" for share in shares))

steps = [study.length, 2 * study.length, study.longer]
print(f"\nright answers at a step; training had {study.length}")
print(f"{'':34}", *(f"{step:>6}" for step in steps))
for name, shares in result.by_step.items():
    print(f"{name:34}", *(f"{shares[step - 1]:6.0%}" for step in steps))

print(f"\nwithout being given statistics: {result.refusal}")
print(save_figure(norm_picture(result), OUT))
