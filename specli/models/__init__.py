"""From what a person names to files on disk, and what a GGUF file's header says."""
