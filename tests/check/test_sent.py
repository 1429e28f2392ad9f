"""Which line of a project a collective is for, and which gathers have the whole sequence."""

from types import SimpleNamespace

import pytest
from redco_fit.compiled.hlo import collectives
from redco_fit.compiled.places import Place, places
from redco_new.check.measure.sent import gathers, tell_sent

PROGRAM = """HloModule jit_train

FileNames
1 "{0}/p/model.py"
2 "{0}/p/runtime/nn/linear.py"
3 "/usr/lib/flax.py"
FunctionNames
1 "Layer.__call__"
2 "product"
3 "build.<locals>.train"
FileLocations
1 {{file_name_id=1 function_name_id=1 line=7 end_line=7 column=1 end_column=2}}
2 {{file_name_id=2 function_name_id=2 line=9 end_line=9 column=1 end_column=2}}
3 {{file_name_id=3 function_name_id=3 line=1 end_line=1 column=1 end_column=2}}
StackFrames
1 {{file_location_id=3 parent_frame_id=1}}
2 {{file_location_id=1 parent_frame_id=1}}
3 {{file_location_id=2 parent_frame_id=2}}
4 {{file_location_id=2 parent_frame_id=1}}

ENTRY %main (x: f32[4,8]) -> f32[4,8] {{
  %x = f32[4,8] parameter(0)
  ROOT %g = f32[8,120,8] all-gather(%x), channel_id=1, dimensions={{0}}, metadata={{op_name="a" stack_frame_id=3}}
}}
"""


def test_the_place_of_a_collective(tmp_path):
    found = places(PROGRAM.format(tmp_path), str(tmp_path))
    assert found["3"] == Place("p/model.py", "Layer.__call__", 7)  # not the runtime below it
    assert found["4"] == Place("p/runtime/nn/linear.py", "product", 9)
    assert "1" not in found  # no file of the project
    (one,) = collectives(PROGRAM.format(tmp_path), 2)
    assert found[one.frame].function == "Layer.__call__"
    assert gathers(one, 120) and not gathers(one, 121)


@pytest.mark.parametrize("file, faults", [("linear", 1), ("embedding", 0)])
def test_the_gradients_of_rows_may_be_gathered(tmp_path, file, faults):
    """As embedding.py does where they are fewer than the sums of its table; their lines are below no line of the user's."""
    text = PROGRAM.format(tmp_path).replace("nn/linear.py", f"nn/{file}.py")
    text = text.replace("stack_frame_id=3", "stack_frame_id=4").replace("8,120,8", "8,120,800")
    told = []
    project = SimpleNamespace(
        folder=str(tmp_path),
        package="p",
        modules={"sharding": None},
        has=lambda name: False,
        fault=lambda *fault: told.append(fault),
        tell=lambda **_: None,
    )
    tell_sent(project, text, SimpleNamespace(size=2, shape={"data": 2}), 120)
    assert len(told) == faults


def test_a_program_without_frames():
    assert places("HloModule x\n", "/") == {}


@pytest.mark.parametrize("line", ["s32[8,120] all-gather", "f32[8,120] all-reduce"])
def test_ids_and_sums_are_no_gathers_of_activations(tmp_path, line):
    text = PROGRAM.format(tmp_path).replace("f32[8,120,8] all-gather", line)
    (one,) = collectives(text, 2)
    assert not gathers(one, 120)
