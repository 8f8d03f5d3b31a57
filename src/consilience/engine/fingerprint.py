"""A fingerprint of labels: equal for equal labels, in memory or on disk, whole or in blocks.

It is the SHA-256 of the digests of the parts: three arrays of codes, three vocabularies, and the known truths.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from consilience.data.annotations import Annotations
from consilience.data.ids import is_text, text_buffers
from consilience.kernels import blocks
from consilience.kernels._arrays import Codes

__all__ = ["PARTS", "digest_of_array", "digest_of_names", "fingerprint", "fingerprint_of_digests"]

#: The parts in the order in which their digests are joined.
PARTS = ("indptr", "annotator", "label", "items", "annotators", "classes", "gold")

#: Bytes read at a time.
_PIECE = 1 << 24


def fingerprint(annotations: Annotations) -> str:
    """Return the fingerprint of labels in memory: 64 hexadecimal digits."""
    ids = {
        "items": annotations.item_ids,
        "annotators": annotations.annotator_ids,
        "classes": annotations.class_ids,
    }

    def digest(part: int, _: int) -> bytes:
        name = PARTS[part]
        return digest_of_names([ids[name].to_arrow()]) if name in ids else digest_of_array(getattr(annotations, name))

    digests = blocks.run(digest, [(part, part + 1) for part in range(len(PARTS))])
    return fingerprint_of_digests(dict(zip(PARTS, digests, strict=True)))


def fingerprint_of_digests(digests: dict[str, bytes]) -> str:
    """Return the fingerprint from the digests of the parts."""
    return hashlib.sha256(b"".join(digests[part] for part in PARTS)).hexdigest()


def digest_of_array(array: Codes | None) -> bytes:
    """Return the digest of the type and values of an array, or of None (no gold)."""
    if array is None:
        return hashlib.sha256(b"none").digest()
    made = hashlib.sha256(array.dtype.str.encode())
    step = _PIECE // array.dtype.itemsize
    for low in range(0, array.size, step):
        made.update(array[low : low + step].data)
    return made.digest()


def digest_of_names(parts: Iterable[pa.Array]) -> bytes:
    """Return the digest of names in one or several arrays: their type, lengths (of text) and bytes."""
    kind, lengths, content = b"", hashlib.sha256(), hashlib.sha256()
    for names in parts:
        kind = str(names.type).encode()
        for values in _values(names, lengths):
            content.update(values.data)
    return hashlib.sha256(kind + lengths.digest() + content.digest()).digest()


def _values(names: pa.Array, lengths: Any) -> Iterable[Codes]:
    if is_text(names):
        offsets, content = text_buffers(names)
        lengths.update(np.diff(offsets).astype(np.int64).data)
        yield content[offsets[0] : offsets[-1]]
    elif pa.types.is_boolean(names.type):
        yield np.asarray(names.cast(pa.uint8()))
    else:
        word = np.dtype(f"u{names.type.bit_width // 8}")
        yield np.frombuffer(names.buffers()[1] or b"", word)[names.offset : names.offset + len(names)]
