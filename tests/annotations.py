"""How annotations are checked while tests run: as mypy reads them, an int is a float too."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
