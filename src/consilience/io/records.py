"""JSON arrays of objects: one object for each label."""

from __future__ import annotations

import pyarrow as pa

from consilience.exceptions import FormatError
from consilience.io.documents import Pick
from consilience.io.export import column_of
from consilience.io.source import Source

__all__ = ["read"]


def read(source: Source, pick: Pick) -> pa.Table:
    """Read the picked fields of all objects."""
    document = source.read_document() if source.document is None else source.document
    if not isinstance(document, list) or not all(isinstance(record, dict) for record in document):
        raise FormatError(f"{source.name} is not a table: expected a JSON array of objects, one for each label")
    wanted = pick(list(dict.fromkeys(name for record in document[:1000] for name in record)))
    return pa.table({name: column_of([r.get(name) for r in document], name, source.name) for name in wanted})
