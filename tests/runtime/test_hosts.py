"""What N hosts need once is done once, or shared out: counted by bytes, calls and lines, never by time. `make table NAME=hosts` goes further."""

from hosts import run

MEGABYTES = 8


def test_a_host_pays_what_one_of_fewer_does(tmp_path):
    one, two = (run.phases(count, tmp_path / str(count), MEGABYTES) for count in (1, 2))
    size = one["bytes"]
    for phase, what, most in (
        ("save", "written MB", 1.1),
        ("save", "read MB", 0.1),
        ("restore", "read MB", 1.1),  # its share, verified as it is used
        ("restore, other split", "read MB", 1.1),
    ):
        # Beside 4 MB of what Orbax and Python read of themselves.
        assert two[phase][what] < most * size / 2 + 4, (phase, two[phase])
        assert one[phase][what] < most * size + 4, (phase, one[phase])
    # None compiles a program to agree, and what is asked of the coordinator grows with no host.
    assert all(two[phase]["device collectives"] == 0 for phase in ("start", "save", "restore"))
    assert two["start"]["calls"] <= 7 and two["save"]["calls"] <= 40
    assert two["restore"]["calls"] <= 24


def test_the_files_of_a_first_start_are_read_once(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"text": "abc def ghi"}\n' * 100_000)
    one, four = (run.first_start(count, file, tmp_path / str(count)) for count in (1, 4))
    assert 4 * four < 1.15 * one


def test_a_cause_is_one_line_of_all(tmp_path):
    assert run.lines_of_fault(4, 0, tmp_path) == 1
