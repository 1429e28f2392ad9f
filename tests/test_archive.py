"""One archive of many files: the same bytes for the same contents, and nothing but that is read."""

import io
import lzma
import tarfile
import tracemalloc

import pytest

from redco_new.project import archive
from redco_new.project.archive import pack, unpack

FILES = {"a.py": b"x = 1\n", "b/c.sh": b"#!/bin/sh\n", "empty": b"", "block": b"y" * 512}


def tar(*members, mode=tarfile.USTAR_FORMAT):
    """A .tar.xz of (TarInfo or path, content), as other programs write it."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:xz", format=mode) as out:
        for info, content in members:
            info = tarfile.TarInfo(info) if isinstance(info, str) else info
            info.size = len(content)
            out.addfile(info, io.BytesIO(content))
    return file.getvalue()


def special(kind):
    info = tarfile.TarInfo("x")
    info.type, info.linkname = kind, "/etc/passwd"
    return info


def test_what_is_packed_is_read():
    assert unpack(pack(FILES)) == FILES
    assert unpack(pack({})) == {}


def test_other_programs_read_it():
    with tarfile.open(fileobj=io.BytesIO(pack(FILES))) as read:
        found = {info.name: read.extractfile(info).read() for info in read}
        assert [(i.mtime, i.uid, i.gid, i.uname, i.mode) for i in read][0] == (0, 0, 0, "", 0o644)
    assert found == FILES


def test_bytes_follow_from_contents():
    assert pack(dict(reversed(FILES.items()))) == pack(FILES)
    assert pack(FILES | {"empty": b"."}) != pack(FILES)
    text = lzma.decompress(pack({"a": b"b\n"}))
    assert text[:512].rstrip(b"\0").endswith(b"ustar\x0000") and len(text) == 4 * 512


HOSTILE = {
    "nothing": b"",
    "no xz": b"PK\3\4",
    "torn": pack(FILES)[:-9],
    "two": pack(FILES) * 2,
    "no tar": lzma.compress(b"x" * 2048),
    "cut off": lzma.compress(lzma.decompress(pack(FILES))[:-512]),
    "goes on": lzma.compress(lzma.decompress(pack(FILES)) + b"more"),
    "larger than it is": lzma.compress(lzma.decompress(pack(FILES))[:1024]),
    "absolute": tar(("/etc/passwd", b"")),
    "parent": tar(("../x", b"")),
    "inner parent": tar(("a/../../x", b"")),
    "empty name": tar(("", b"")),
    "twice": tar(("a", b"1"), ("a", b"2")),
    "out of order": tar(("b", b"1"), ("a", b"2")),
    "link": tar((special(tarfile.SYMTYPE), b"")),
    "hard link": tar((special(tarfile.LNKTYPE), b"")),
    "device": tar((special(tarfile.CHRTYPE), b"")),
    "pipe": tar((special(tarfile.FIFOTYPE), b"")),
    "folder": tar((special(tarfile.DIRTYPE), b"")),
    "sparse": tar((special(tarfile.GNUTYPE_SPARSE), b"")),
    "long names": tar(("x" * 300, b""), mode=tarfile.GNU_FORMAT),
    "pax": tar(("x" * 300, b""), mode=tarfile.PAX_FORMAT),
    "much memory": lzma.compress(
        lzma.decompress(pack(FILES)), filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 28}]
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_all_else_is_refused(name):
    with pytest.raises(ValueError):
        unpack(HOSTILE[name])


def test_zeros_take_no_memory(monkeypatch):
    """10 GB of them pack to little: what is read of them is what an archive may hold."""
    monkeypatch.setattr(archive, "MOST_BYTES", 1 << 20)
    bomb = lzma.compress(bytes(1 << 26), preset=0)
    tracemalloc.start()
    with pytest.raises(ValueError, match="more than 1 MB"):
        unpack(bomb)
    assert tracemalloc.get_traced_memory()[1] < 1 << 23
    tracemalloc.stop()
