"""What a user is told of a class that is printed otherwise than PyTorch has it."""

FLOAT32 = "{name} computes in float32, whatever --dtype says: in bfloat16 {cause}"
EVERY = "{name}: each of its experts is computed of each token, also of one that did not choose it"
ROWS = "{name}: what it computes of rows that a mask selects is computed of all, and written where they are selected"
ALONE = "{name} mixes positions otherwise than by attention: texts share no row (--packing off)"
ANEW = "{name}: predict computes each text anew for each token"
WHOLE = "{name}: predict computes each target anew for each token"
DRAWN = (
    "{name} begins with {what} drawn by numbers that none of its sizes says, or by several: model.py draws it as Flax does;"
    " give its initializer there"
)
FROZEN = "{name} is not trained, and is random until weights are read"
FIXED = "{name} is another program for inputs of other sizes: those of its own are in model.py"
ITS_OWN = "{name} computes something else with other sizes: model.py is right for its own; print it anew for others"
NUMBERS = "{name} makes {fields} of its other arguments: they are fields of config.py, to be changed with these"
NOISE = "{name} draws numbers: in training by the key of each example, and its mean in evaluation: 0, or of `rand` 0.5"
OFF = "{name} is printed with {keys} off: what that leaves out is drawn on the host, which has no program"
ASSERTS = "{name} asserts what model.py does not check: {what}"
