"""Every procedure by its name."""
from collections.abc import Callable

from cuvee.kernels.procedures.base import Procedure
from cuvee.kernels.procedures.climb import Climb
from cuvee.kernels.procedures.olmix import Olmix
from cuvee.kernels.procedures.ours import ROUNDS, Ours
from cuvee.kernels.procedures.regmix import RegMix

PROCEDURES: dict[str, Callable[[], Procedure]] = {
    "ours": Ours, "ours-rounds": lambda: Ours(ROUNDS), "regmix": RegMix, "climb": Climb, "olmix": Olmix}
