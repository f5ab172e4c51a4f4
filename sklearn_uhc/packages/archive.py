"""The file of a package: a zip with a few members of known names, read into memory within limits.

Nothing is ever unpacked to disk, so names that point elsewhere would be harmless. They are rejected all the same, as
are links, encryption and unexpected members. The size of the zip's directory is checked before Python's zipfile reads
it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

CARD, MODEL, MEMBERSHIP, EXAMPLE, CHECKSUMS = (
    "card.json",
    "model.onnx",
    "membership.onnx",
    "example.json",
    "checksums.json",
)
REQUIRED = frozenset({CARD, MODEL, EXAMPLE, CHECKSUMS})
ALLOWED = REQUIRED | {MEMBERSHIP}
#: Maximum unpacked size of a member in bytes; for models it is that of the whole package.
LIMITS = {CARD: 2**20, CHECKSUMS: 2**16, EXAMPLE: 2**26}
#: End record of a zip without a comment, and the locator before it in a zip of over 65,535 members or 4 GB.
END, END_SIZE, LOCATOR, LOCATOR_SIZE = b"PK\x05\x06", 22, b"PK\x06\x07", 20
MOST_DIRECTORY = 2**12


class PackageError(ValueError):
    """The file is not a teacher package, or must not be used."""


def write_archive(path: str | os.PathLike[str], members: dict[str, bytes]) -> None:
    """Write members with their checksums; equal members give equal files."""
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(members.items())}
    members = members | {CHECKSUMS: json.dumps(sums, indent=1).encode()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(members):
            info = zipfile.ZipInfo(name)  # dated 1980, so that files do not depend on the time
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, members[name])
    Path(path).write_bytes(buffer.getvalue())


def read_archive(path: str | os.PathLike[str], max_size: int) -> dict[str, bytes]:
    """Return the members of a package after comparing checksums; at most `max_size` bytes are unpacked."""
    content = _read_file(path, max_size)
    _check_directory_size(content)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = _read_members(archive, max_size)
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        NotImplementedError,
        OSError,
        RuntimeError,
        struct.error,
    ) as error:
        raise PackageError(f"it is damaged ({error})") from error
    except (UnicodeDecodeError, OverflowError) as error:
        raise PackageError("its directory cannot be read") from error
    _check_sums(members)
    return members


def _read_file(path: str | os.PathLike[str], max_size: int) -> bytes:
    state = os.stat(path)
    if not stat.S_ISREG(state.st_mode):
        raise PackageError("it is no regular file")
    if state.st_size > max_size:
        raise PackageError(f"it has {state.st_size} bytes, but max_size is {max_size}")
    return Path(path).read_bytes()


def _check_directory_size(content: bytes) -> None:
    """Raise an error for a file that is not a zip, or whose directory is too long; zipfile would read any length."""
    end = content[-END_SIZE:]
    if len(end) < END_SIZE or end[:4] != END:
        raise PackageError("it is not a zip file, or was cut short")
    _, _, _, count, size, _, comment = struct.unpack("<4H2IH", end[4:])
    large = content[-END_SIZE - LOCATOR_SIZE : -END_SIZE][:4] == LOCATOR
    if comment or large or count > len(ALLOWED) or size > MOST_DIRECTORY:
        raise PackageError("its directory is not that of a package")


def _read_members(archive: zipfile.ZipFile, max_size: int) -> dict[str, bytes]:
    infos = archive.infolist()
    names = [info.filename for info in infos]
    unknown = sorted(set(names) - ALLOWED)
    if unknown:
        raise PackageError(f"it contains {unknown[0][:80]!r}, which does not belong in a package")
    if len(set(names)) < len(names):
        raise PackageError("it contains two members with the same name")
    missing = sorted(REQUIRED - set(names))
    if missing:
        raise PackageError(f"it lacks {missing[0]!r}")
    for info in infos:
        _check_member(info, max_size)
    if sum(info.file_size for info in infos) > max_size:
        raise PackageError(f"unpacked it would exceed max_size, {max_size} bytes")
    return {info.filename: _read_member(archive, info) for info in infos}


def _check_member(info: zipfile.ZipInfo, max_size: int) -> None:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        raise PackageError(f"{info.filename!r} is a link or another special file")
    if info.flag_bits & 1:
        raise PackageError(f"{info.filename!r} is encrypted")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise PackageError(f"{info.filename!r} is compressed by a method that packages do not use")
    limit = LIMITS.get(info.filename, max_size)
    if info.file_size > limit:
        raise PackageError(f"{info.filename!r} would have {info.file_size} bytes, at most {limit} are allowed")


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    with archive.open(info) as member:  # zipfile stops at the declared size and compares a CRC
        content = member.read(info.file_size + 1)
    if len(content) != info.file_size:
        raise PackageError(f"{info.filename!r} does not have its announced size")
    return content


def _check_sums(members: dict[str, bytes]) -> None:
    sums = parse_json(members[CHECKSUMS], CHECKSUMS)
    found = {name: hashlib.sha256(content).hexdigest() for name, content in members.items() if name != CHECKSUMS}
    if sums != found:
        raise PackageError("its checksums do not match its content: it was damaged or changed")


def parse_json(content: bytes, name: str) -> Any:
    """Parse a JSON member."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise PackageError(f"{name!r} is not JSON ({type(error).__name__})") from error
