"""redco.toml: the one file of a project that says what redco makes of it, and that redco writes."""

from dataclasses import replace
from functools import partial

from redco_merge import merge_tables, merge_text

from redco_new.errors import RedcoError, Refusal
from redco_new.request import CONFIG_RATES, Request
from redco_new.request.features import check_features, features_kept, features_with
from redco_new.request.launch import launchers_with
from redco_new.request.toml import read_toml
from redco_new.update.file_merge import FileMerge
from redco_new.update.migration import has_module
from redco_new.project.state import ProjectState

REDCO_TOML = "redco.toml"


def read_request(state: ProjectState) -> Request:
    """Return what the user's redco.toml asks for. Raises RedcoError, which names the key."""
    content = state.ours(REDCO_TOML)
    if content is None:
        todo = f"bring it back: redco update --restore {REDCO_TOML}"
        raise RedcoError(REDCO_TOML, "is missing", todo)
    request = parse_redco_toml(content, state)
    before, keys = state.manifest.request, keys_of(content)

    def has(path: str) -> bool:
        return state.ours(path) is not None

    has_today = partial(has_module, state, request.package)
    names = features_kept(request.package, state.manifest.interface, has_today)
    if "features" not in {*before, *keys}:  # all projects had those that there were
        muon = () if "muon" in {*before, *keys} else ("muon",)
        names |= {*features_with(request.package, has)} - {"muon"} | {*muon}
    if names:
        features = check_features(REDCO_TOML, [*names, *request.features])
        request = replace(request, features=features)
    if "launch" not in {*before, *keys}:  # all projects had the files of six
        request = replace(request, launch=launchers_with(has))
    if request.model == before.get("model"):
        if request.dropout == CONFIG_RATES and "dropout" not in before and "/" in request.model:
            request = replace(request, dropout=0.0)  # a checkpoint, before rates were honoured
        request = replace(request, recorded=state.manifest.model_record)
    name = before["name"]
    if request.name != name:
        what = f"the name was {name} and is {request.name}: its package is all over the project"
        todo = "give back the name, or make a new project with redco-new"
        raise RedcoError(f"{REDCO_TOML}: name", what, todo)
    return request


def parse_redco_toml(content: bytes, state: ProjectState) -> Request:
    """Return what a redco.toml of these bytes asks for. Raises RedcoError, which names the key."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RedcoError(REDCO_TOML, f"not UTF-8: {error}", "mend that line") from error
    return Request.from_toml(text, REDCO_TOML, state.root)


def keys_of(content: bytes) -> set[str]:
    """Return the keys of a redco.toml. Raises RedcoError for what is no TOML."""
    return {*read_toml(REDCO_TOML, content.decode("utf-8-sig", "replace"))}


def merge_redco_toml(
    state: ProjectState, toml_request: Request, request: Request, theirs: bytes
) -> FileMerge:
    """Merge `request` into the user's redco.toml, keeping their layout and comments.

    toml_request: what the file asks for, with no flags.
    request: what it is to ask for.
    theirs: the template's text of `request`.

    A value that the user changed there is what they ask for, and no edit to be kept from redco: so
    the base of the merge is the template's text of `toml_request`.
    Raises Refusal if the flags would change what the user has written in a way of their own.
    """

    def asks_for(content: bytes, wanted: Request) -> bool:
        try:
            return parse_redco_toml(content, state) == wanted
        except RedcoError:
            return False

    ours, base = state.ours(REDCO_TOML), state.base(REDCO_TOML)
    assert ours is not None, "its request was read from it"
    theirs_before = theirs.replace(request.to_toml().encode(), toml_request.to_toml().encode())
    first = merge_text(base or b"", ours, theirs_before)
    fits = not first.conflicts and asks_for(first.content, toml_request)
    merged = merge_text(theirs_before, first.content if fits else ours, theirs)
    if merged.conflicts or not asks_for(merged.content, request):
        values = merge_tables(toml_request.to_toml(), ours.decode(), request.to_toml())
        if values is None or not asks_for(values.encode(), request):
            raise _flags_do_not_fit(toml_request, request)
        return FileMerge(REDCO_TOML, ours, values.encode())
    return FileMerge(REDCO_TOML, ours, merged.content)


def _flags_do_not_fit(toml_request: Request, request: Request) -> Refusal:
    """Return the error for a redco.toml that cannot be made to ask for `request`."""
    present = toml_request.to_toml().splitlines()
    wanted = ", ".join(line for line in request.to_toml().splitlines() if line not in present)
    what = "the flags change lines that you wrote in a way of your own, and nothing was changed"
    todo = f"write {wanted} there yourself, and run it again without the flags"
    return Refusal(REDCO_TOML, what, todo)
