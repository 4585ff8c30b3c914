"""Procedures that choose runs and mixtures; PROCEDURES (registry.py) names them all."""
