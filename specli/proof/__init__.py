"""Proofs, on the user's own models, that a text is what the target alone would have written."""
