"""Loaded runs behind a public HTTP API, and the explorer page that uses nothing else."""
