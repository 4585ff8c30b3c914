"""The later steps of the tiny work folder: topics, domains, swarm, fit, mixture, validation."""

from __future__ import annotations

import pyarrow as pa

from cuvee.engine.run import Work
from cuvee.engine.step import Step
from tests.report.tiny import task

DOMAINS = [(f"t{topic:02d}.q{band}", topic, band) for topic in range(3) for band in (1, 2)]
KINDS = ["proportional", "repeat", "repeat", "unimax", "uniform"] + ["proposal"] * 11


def topics() -> dict:
    names = ["sea, ship, sail", "<b>bold</b>, html, tag", "数学, 証明, 定理"]
    return {"topics": [{"topic": topic, "name": name, "documents": 100 + topic, "bytes": 5_000_000 * (topic + 1), "sources": {"web": 0.75, "wiki": 0.25},
                        "words": [[word, 2.5] for word in name.split(", ")],
                        "examples": [{"row": f"web/00000-000:{topic}", "text": f"Example {n} of {name} " * 12} for n in range(4)]}
                       for topic, name in enumerate(names)]}


def domains() -> dict:
    return {"heldout_spearman": 0.71, "domains": [
        {"name": name, "topic": topic, "band": band, "documents": 50, "bytes": 2_500_000, "low": band - 1.25, "high": band - 0.25,
         "examples": [{"row": f"wiki/00000-000:{band}", "score": band - 0.5, "text": f"What {name} reads like. " * 20}]} for name, topic, band in DOMAINS]}


def portraits() -> dict:
    return {"domains": [{"name": name, "languages": {"en": 0.75, "fr": 0.25}} for name, _, _ in DOMAINS]}


def runs() -> dict:
    return {"runs": [{"run": f"r{n:03d}", "kind": kind, "mixture": n, "seed": n, "tokens": 1_000_000, "losses": [3.0, 2.0]} for n, kind in enumerate(KINDS)],
            "tasks": [{"name": "quiz", "kind": "eval", "items": 2, "records": 7, "bytes": 90},
                      {"name": "outside", "kind": "eval", "items": None, "records": None, "bytes": None}], "proxy": {"depth": 4, "parameters": 1_234_567},
            "failed": [{"run": "r099", "reason": "loss is NaN at step 12"}]}


def rounds() -> dict:
    facts = {"best": -0.5, "goal": -0.75, "noise": 0.25, "missed": 0.125, "radius": 0.6, "notes": []}
    return {"procedure": "ours", "rounds": [{"round": 1, "runs": 10, "why": ""}, {"round": 2, "runs": 6, "why": "", "expected_improvement": 0.375, **facts},
                                            {"round": 3, "runs": 0, "why": "too little is expected", "expected_improvement": 0.0625, **facts}]}


def drawn() -> pa.Table:
    return pa.Table.from_pylist([{"run": f"r{n:03d}", "kind": kind, "domain": name, "weight": 0.2 if at else 0.0, "rows_drawn": 10, "subset_tokens": 1_000,
                                  "tokens_drawn": 2_500, "epochs": 0.5 * at, "floored": at == 1} for n, kind in enumerate(KINDS)
                                 for at, (name, _, _) in enumerate(DOMAINS)])


def fit() -> dict:
    measured = [2.0 + 0.013 * ((7 * n) % 16) for n in range(len(KINDS))]
    predicted = [value + 0.01 * ((n % 3) - 1) for n, value in enumerate(measured)]
    return {"model": "saturating", "notes": ["3 scores are missing"], "mean": {"spearman": 0.9321, "low": 0.871, "high": 0.962, "noise_sd": 0.125, "freedom": 6,
                                                                                    "resolves": 0.4326},
            "tasks": [{"name": "quiz", "kind": "eval", "role": "target", "weight": 1.0, "why": None, "snr": 5.25, "noise_sd": 0.004, "freedom": 6,
                       "resolves": 0.0138, "predictability": 0.875, "swarm_sd": 0.021, "spearman": 0.9, "low": 0.8, "high": 0.95, "regret": 0.001},
                      {"name": "heldout/t00.q1", "kind": "heldout", "role": "target", "weight": 0.0, "why": "low_signal", "snr": 1.5, "noise_sd": 0.01,
                       "freedom": 6, "resolves": 0.0346, "predictability": None, "swarm_sd": 0.015, "spearman": 0.4, "low": 0.1, "high": 0.6, "regret": None}],
            "runs": [{"run": f"r{n:03d}", "kind": kind, "measured": {}, "predicted": {}, "measured_mean": measured[n], "predicted_mean": predicted[n]}
                     for n, kind in enumerate(KINDS)]}


def mixture() -> dict:
    weights = [0.05, 0.1, 0.15, 0.2, 0.125, 0.375]
    rows = [{"name": name, "weight": weight, "parts": round(weight * 1048576), "tokens": 1_000_000, "epochs": 8 * weight, "natural": 1 / 6,
             "low": weight * 0.8, "high": weight * 1.2} for (name, _, _), weight in zip(DOMAINS, weights)]
    return {"version": 1, "budget": 8_000_000, "parts": 1048576, "domains": rows, "objective": -1.25, "kkt": 1e-9, "fingerprints": {},
            "tasks": [{"name": "quiz", "predicted": 1.9876, "sd": 0.01, "proportional": 2.0987}],
            "mean": {"predicted": -1.5, "sd": 0.125}, "optimism": 0.25,
            "frontier": [{"kl": kl, "predicted": -1.5 + kl, "sd": 0.125, "divergence": 0.25 - kl, "max_epochs": 3.0, "capped": [], "chosen": kl == 0.05}
                         for kl in (0.0, 0.05, 0.1)],
            "baselines": {name: {"weights": {each["name"]: 1 / 6 for each in rows}, "predicted": {"quiz": value}, "mean": {"predicted": 0.5, "sd": 0.125}}
                          for name, value in
                          (("proportional", 2.0987), ("unimax", 2.0765), ("uniform", 2.0543))}}


def validation() -> dict:
    gaps = [{"pairs": 5, "difference": -0.05, "se": 0.01, "low": -0.08, "high": -0.02}, {"pairs": 3, "difference": -0.0912, "se": 0.02, "low": -0.13, "high": -0.05}]
    sizes = [{"depth": 2 + 2 * at, "parameters": 1_234_567, "tokens": 1_000_000 + 2_000_000 * at, "flops": 10.0 ** (12 + at), "larger": at > 0, "seeds": [0, 1, 2],
              "failed": [{"mixture": "unimax", "seed": 2, "reason": "loss is NaN <b>"}] * at, "means": {"proportional": 2.05 - at / 10, "proposal": 1.95 - at / 10},
              "proposal": gap, "unimax": None, "over_unimax": None, "gains": {"proposal": {"factor": 1.5, "low": 1.25, "high": None, "beyond": at > 0}},
              "tasks": [{"name": "quiz", "protected": None, "regressed": False, "means": {}, "proposal": gap, "unimax": None},
                        {"name": "heldout/t00.q1", "protected": 0.005, "regressed": at > 0, "means": {}, "unimax": None,
                         "proposal": {"pairs": 3, "difference": 0.01, "se": 0.015, "low": -0.02, "high": 0.04}}]} for at, gap in enumerate(gaps)]
    curve = {"form": "A C^-alpha", "floor": 0.0, "scale": 2.0, "exponent": 0.1, "unit": 3e12, "misfit": 0.5, "said": "Proportional's loss follows A C^-alpha.",
             "points": [{"flops": size["flops"], "loss": size["means"]["proportional"], "se": 0.01, "fitted": 2.0} for size in sizes]}
    return {"version": 2, "verdict": "hold", "explanation": "Protected task heldout/t00.q1 rises.", "remarks": ["One remark.", curve["said"]], "sizes": sizes,
            "curve": curve, "scores": [], "tasks": [{"name": "quiz", "weight": 1.0, "protected": None, "predicted": -0.1111},
                                                    {"name": "heldout/t00.q1", "weight": 0.0, "protected": 0.005, "predicted": None}],
            "optimism": {"predicted": -0.1111, "predicted_se": 0.01, "measured": -0.05, "measured_se": 0.01, "optimism": 0.0611, "se": 0.014, "fires": True}}


def mix(work: Work) -> None:
    """Do every later step by hand."""
    for step, name, value in (("topics", "topics.json", topics()), ("quality", "domains.json", domains()), ("portraits", "portraits.json", portraits()), ("fit", "fit.json", fit()),
                              ("mix", "mixture.json", mixture()), ("validate", "validate.json", validation())):
        work.do(Step(step, 1), [task("all", {}, jsons={name: value})])
    work.do(Step("tokens", 1), [task(name, {"rows": 700 + at, "heldout": 16, "documents": 34, "bytes": 1}) for at, (name, _, _) in enumerate(DOMAINS)])
    work.do(Step("swarm", 1), [task("all", {}, {"run_domains.parquet": drawn()}, {"runs.json": runs(), "rounds.json": rounds()})])
