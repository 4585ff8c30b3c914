"""Synthetic worlds: laws of known optimum that stand in for swarms of real proxies (docs/synthetic.md)."""
