"""How near to an exact solver the search of the mixture comes, and how long it takes: `python benchmarks/solve.py`. Prints Markdown.

Convex laws of random domains and tasks under random caps; the reference is a log barrier with Newton steps, exact to
1e-8, in tests/kernels/exact.py.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from cuvee.kernels.search import minimise

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.kernels.exact import by_barrier, law  # noqa: E402

SIZES = ((8, 5, 200), (20, 10, 50), (60, 20, 20), (200, 50, 10))  # domains, tasks, problems


@threadpool_limits.wrap(limits=1)
def main() -> None:
    minimise(*(each := law(0, 8, 5))[:1], each[0].natural, each[1])
    print("| domains x tasks | problems | furthest from the optimum | largest kkt | caps passed | seconds, middle | most |")
    print("|---|---|---|---|---|---|---|")
    for domains, tasks, problems in SIZES:
        off, gaps, passed, seconds = [], [], 0, []
        for seed in range(problems):
            objective, caps = law(seed, domains, tasks)
            start = time.perf_counter()
            found = minimise(objective, objective.natural, caps)
            seconds.append(time.perf_counter() - start)
            off.append(abs(found.value - by_barrier(objective, caps)))
            gaps.append(found.kkt)
            passed += int((found.weights > caps).sum())
        print(f"| {domains} x {tasks} | {problems} | {max(off):.1e} | {max(gaps):.1e} | {passed} | {np.median(seconds):.3f} | {max(seconds):.3f} |")


if __name__ == "__main__":
    main()
