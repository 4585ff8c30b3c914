"""What evaluations hold, and what is boilerplate."""
