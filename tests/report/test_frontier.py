from cuvee.report.frontier import frontier
from tests.report import mixed


def found() -> dict:
    base = mixed.mixture()
    points = [{"kl": kl, "predicted": mean, "sd": 0.1, "divergence": far, "max_epochs": 3.0, "capped": [f"t{n:02d}.q1" for n in range(full)], "chosen": kl == 0.05}
              for kl, mean, far, full in ((0.0, -1.75, 0.9, 8), (0.05, -1.5, 0.4, 2), (1.0, -0.25, 0.01, 0))]
    baselines = {"half": {"weights": {each["name"]: 0.5 * (at < 2) for at, each in enumerate(base["domains"])}, "mean": {"predicted": 0.125, "sd": 0.1}}}
    return base | {"frontier": points, "baselines": baselines, "mean": {"predicted": -1.5, "sd": 0.1}, "optimism": 0.2468}


def test_the_proposal_is_marked_and_what_is_said_stands_there():
    page = frontier(found())
    row = next(part for part in page.split("<tr") if "→" in part)
    assert ">0.05<" in row and ">-1.5<" in row and "t00.q1, t01.q1" in row
    assert "t05.q1 and 2 more" in page and "0.2468 SDs of the swarm" in page
    assert "half: 1.0986, 0.125" in page  # all in a third of what is natural: log 3
    assert "polyline" in page and "Frontier" in frontier(None)
