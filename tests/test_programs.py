"""What the tests keep of what they compiled."""

import os
import zlib

from programs import AGE, keep_programs, link_programs


def test_a_run_has_what_others_compiled_but_nothing_half_written_or_old(tmp_path):
    first, second, kept = (tmp_path / name for name in ("first", "second", "kept"))
    first.mkdir(), second.mkdir()
    whole = zlib.compress(b"program" * 99)
    for name, content in {"a": whole, "killed": whole[:-3], "old": whole}.items():
        (first / f"{name}-cache").write_bytes(content)
    keep_programs(first, kept)
    assert {path.name for path in kept.iterdir()} == {"a-cache", "old-cache"}
    os.utime(kept / "old-cache", (0, kept.stat().st_mtime - 2 * AGE))
    link_programs(second, kept)
    assert {path.name for path in second.iterdir()} == {"a-cache"}
    assert (second / "a-cache").read_bytes() == whole
    (second / "b-cache").write_bytes(whole)
    keep_programs(second, kept)
    assert {path.name for path in kept.iterdir()} == {"a-cache", "b-cache"}
