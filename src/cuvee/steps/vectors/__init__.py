"""Vectors of documents, and what domains made of them look like."""
