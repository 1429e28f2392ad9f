"""A terminal or a connection that is lost: what a run says then goes nowhere, and ends nothing."""

import os

import pytest

from redco_runtime.loop import stop


def test_output_that_nobody_reads_any_more_goes_nowhere():
    lost_reader, lost = os.pipe()
    reader, read = os.pipe()
    os.close(lost_reader)
    master, terminal = os.openpty()
    os.close(master)
    for number in (lost, terminal):
        with pytest.raises(OSError):
            os.write(number, b"x")
    stop.drop_lost_output([lost, terminal, read])
    for number in (lost, terminal, read):
        assert os.write(number, b"x") == 1
    assert os.read(reader, 9) == b"x"
    for number in (lost, terminal, reader, read):
        os.close(number)
