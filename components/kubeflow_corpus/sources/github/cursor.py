"""How far the issues of a repository have been read: small enough to be kept in the collection's properties.

Raw threads are not kept between runs, so the cursor holds what they would have told: which numbers exist (deleted
issues are those that are gone), which of the newest ones are done (the listing overlaps), and which issues merged pull
requests close (the listing shows those only when they change).
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

FORMAT: Final = 1
# A cursor beyond this is none of ours: it must not fill the memory when it is unpacked.
_MAX_BYTES: Final = 32 << 20


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where the next run goes on.

    Attributes:
        entry: Digest of what the threads were made with (repository, catalogue entry, form of the documents); another
            one starts a full listing.
        position: Every issue that changed up to this time is passed on; empty is none yet. ISO 8601 UTC.
        seen: Issue number to the ``updated_at`` that was passed on, within the overlap before `position`.
        comments_position: Every comment that changed up to this time is in a thread that was passed on.
        comments_seen: Comment id to ``updated_at``, within the overlap before `comments_position`.
        known: Numbers of the issues that were passed on and still exist.
        listed: Numbers that a full listing in progress has passed; None where none is in progress.
        full_at: When the last full listing ended.
        pending: Numbers of issues that must be read again whether or not they changed.
        closing: Number of a merged pull request to the issues that it closes.
        drift: What GitHub counted more than `known` after the last full listing; None where it did not say.
    """

    entry: str = ""
    position: str = ""
    seen: Mapping[int, str] = field(default_factory=dict)
    comments_position: str = ""
    comments_seen: Mapping[int, str] = field(default_factory=dict)
    known: frozenset[int] = frozenset()
    listed: frozenset[int] | None = None
    full_at: str = ""
    pending: tuple[int, ...] = ()
    closing: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    drift: int | None = None

    def to_text(self) -> str:
        """Returns one line of ASCII; the same cursor gives the same line."""
        data = {
            "format": FORMAT,
            "entry": self.entry,
            "position": self.position,
            "seen": _sorted(self.seen),
            "comments_position": self.comments_position,
            "comments_seen": _sorted(self.comments_seen),
            "known": _pack(self.known),
            "listed": None if self.listed is None else _pack(self.listed),
            "full_at": self.full_at,
            "pending": sorted(self.pending),
            "closing": {str(pr): sorted(issues) for pr, issues in sorted(self.closing.items())},
            "drift": self.drift,
        }
        packed = zlib.compress(json.dumps(data, separators=(",", ":")).encode(), 9)
        return base64.b64encode(packed).decode("ascii")

    @classmethod
    def from_text(cls, text: str) -> Cursor:
        """Reads what `to_text` wrote.

        Text that it did not write, such as that of another release, gives an empty cursor: the next run is then a
        full listing, which is always right.
        """
        try:
            unpacked = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), _MAX_BYTES)
            data = json.loads(unpacked)
            return _read(data) if data["format"] == FORMAT else cls()
        except (ValueError, KeyError, TypeError, AttributeError, zlib.error, RecursionError):
            return cls()


def _read(data: Mapping[str, Any]) -> Cursor:
    return Cursor(
        entry=str(data["entry"]),
        position=str(data["position"]),
        seen=_times(data["seen"]),
        comments_position=str(data["comments_position"]),
        comments_seen=_times(data["comments_seen"]),
        known=_unpack(data["known"]),
        listed=None if data["listed"] is None else _unpack(data["listed"]),
        full_at=str(data["full_at"]),
        pending=tuple(int(number) for number in data["pending"]),
        closing={int(pr): tuple(int(issue) for issue in issues) for pr, issues in data["closing"].items()},
        drift=None if data["drift"] is None else int(data["drift"]),
    )


def _sorted(times: Mapping[int, str]) -> dict[str, str]:
    return {str(key): times[key] for key in sorted(times)}


def _times(data: Mapping[str, Any]) -> dict[int, str]:
    return {int(key): str(value) for key, value in data.items()}


def _pack(numbers: frozenset[int]) -> str:
    """Returns a bitmap: issue numbers are dense, 10,000 of them take 2 kB before compression."""
    bitmap = bytearray(max(numbers, default=0) // 8 + 1)
    for number in numbers:
        bitmap[number // 8] |= 1 << number % 8
    return bitmap.hex()


def _unpack(text: str) -> frozenset[int]:
    bitmap = bytes.fromhex(text)
    return frozenset(place * 8 + bit for place, byte in enumerate(bitmap) for bit in range(8) if byte >> bit & 1)
