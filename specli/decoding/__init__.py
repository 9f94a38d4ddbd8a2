"""The draft/verify loop: its rounds, the length of its drafts, where a text ends, and what happened."""
