"""From the bytes of a file to its text, or the reason why it has none.

Text is UTF-8, with or without a byte order mark, which is taken off; CRLF and CR become LF, so that line numbers are
those of an editor. Nothing is guessed: other encodings are skipped and counted, because a wrong guess would be indexed
as nonsense that nobody sees. An empty file is text: what that means is for its chunker to say.
"""

from __future__ import annotations

from typing import Final

from kubeflow_corpus.records import SourceType

# A page or source file of a person is far below; generated CRDs reach 2.7 MB.
MAX_BYTES: Final[dict[SourceType, int]] = {"docs": 2_000_000, "code": 8_000_000, "manifest": 8_000_000}

# Reason: what it means.
REASONS: Final[dict[str, str]] = {
    "too_large": "more bytes than MAX_BYTES allows its type",
    "lfs_pointer": "the content is in Git LFS, which is never asked",
    "binary": "it holds a NUL byte",
    "not_utf8": "its bytes are not UTF-8",
    "symlink": "links are never followed",
    "submodule": "other repositories are sources of their own",
    "not_a_file": "a socket, pipe or device",
    "unsafe_path": "its path is not UTF-8, too long, or holds control characters or a segment such as ..",
    "missing": "the repository does not hold its content",
    "unreadable": "the file system refused to give it",
}

_BOM: Final = b"\xef\xbb\xbf"
_LFS: Final = b"version https://git-lfs.github.com/spec/v1\n"
_MAX_PATH_BYTES: Final = 768
_UNSAFE_SEGMENTS: Final = frozenset({"", ".", "..", ".git"})


def decode(data: bytes) -> tuple[str, str]:
    """Decodes the content of a file.

    Args:
        data: The whole content.

    Returns:
        The text and an empty string, or an empty string and the reason (a key of `REASONS`).
    """
    if data.startswith(_LFS):
        return "", "lfs_pointer"
    if b"\0" in data:
        return "", "binary"
    try:
        text = data.removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError:
        return "", "not_utf8"
    return text.replace("\r\n", "\n").replace("\r", "\n"), ""


def unsafe_path(path: str) -> bool:
    """Returns whether a path cannot be a key, an address or a path below a folder."""
    return (
        len(path.encode("utf-8", "surrogatepass")) > _MAX_PATH_BYTES
        or not path.isprintable()
        or any(segment.lower() in _UNSAFE_SEGMENTS for segment in path.split("/"))
    )
