"""saccade: train, compare, open up and serve sequence models."""

__version__ = "0.1.0"
