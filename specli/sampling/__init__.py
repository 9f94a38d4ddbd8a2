"""From logits to tokens: transforms, randomness, and the verification of drafts."""
