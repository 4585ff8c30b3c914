"""The search for a mixture, and the judgement on it."""
