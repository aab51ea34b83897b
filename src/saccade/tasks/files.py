"""The files that a task's config names, read as it says."""

from collections.abc import Callable, Sequence
from typing import Any

from saccade.data.documents import Documents
from saccade.data.readers import ParallelText, tabular
from saccade.data.tables import table_reader


def read_pairs_of(config: Any, files: Sequence[str]) -> ParallelText:
    """Pairs of texts."""
    columns = _columns(config, tabular(files), lambda: any(map(tabular, _sets(config))))
    both = None if columns is None else (columns[0], columns[1])
    return ParallelText(files, both, on_bad_utf8=config.on_bad_utf8)


def read_documents_of(config: Any, files: Sequence[str]) -> Documents:
    """Texts, or documents with an end."""

    def tables() -> bool:
        return any(map(table_reader, (file for files in _sets(config) for file in files)))

    columns = _columns(config, any(map(table_reader, files)), tables)
    return Documents(files, columns, on_bad_utf8=config.on_bad_utf8)


def _columns(config: Any, has_columns: bool, tables: Callable[[], bool]) -> Any:
    """Those of the config; none for plain files if they are meant for the run's tables."""
    return config.columns if has_columns or not tables() else None


def _sets(config: Any) -> list[Sequence[str]]:
    return [files for files in (config.train, config.dev) if files]


def refuse_wrong_dev(read: Callable[[Any, Sequence[str]], Any], config: Any) -> None:
    """Dev files that are not there, or not of the kind, are told before any work on the others."""
    if config.dev:
        read(config, config.dev).fingerprint()  # which opens them all


def fingerprints(read: Callable[[Any, Sequence[str]], Any], config: Any) -> dict[str, str]:
    """A mark of each data set, so that a change is seen."""
    sets = {"train": config.train, "dev": config.dev}
    return {name: read(config, files).fingerprint() for name, files in sets.items() if files}
