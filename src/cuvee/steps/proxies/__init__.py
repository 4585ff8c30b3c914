"""Runs of small models: which, on what rows, and what their scores say."""
