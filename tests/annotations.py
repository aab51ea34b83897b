"""The checker of annotations while tests run."""

from beartype import BeartypeConf, beartype

# An int is fine where a float is wanted, as PEP 484 and mypy say; beartype's default refuses it.
check = beartype(conf=BeartypeConf(is_pep484_tower=True))
