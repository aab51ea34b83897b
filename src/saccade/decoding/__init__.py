"""Decoding: from a model that predicts one token at a time to whole sequences."""
