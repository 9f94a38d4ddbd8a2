"""Speculative decoding for GGUF models, lossless and measured."""
