"""Whatever proposes tokens: one module a kind, all of one small protocol."""
