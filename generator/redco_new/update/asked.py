"""redco.toml: the one file of a project that says what redco makes of it, and that redco writes."""

from dataclasses import replace

from redco_new.errors import RedcoError, Refusal
from redco_new.merge import merge_text
from redco_new.request import Request
from redco_new.update.outcome import Outcome
from redco_new.update.standing import Standing

REDCO_TOML = "redco.toml"


def read_request(standing: Standing) -> Request:
    """What the user's redco.toml asks for. Raises RedcoError, which names the key."""
    content = standing.ours(REDCO_TOML)
    if content is None:
        todo = f"bring it back: cp .redco/base/{REDCO_TOML}.base {REDCO_TOML}"
        raise RedcoError(REDCO_TOML, "is missing", todo)
    request = parsed(content, standing)
    before = standing.manifest.request
    if request.model == before.get("model"):
        request = replace(request, recorded=standing.manifest.recorded)
    name = before["name"]
    if request.name != name:
        what = f"the name was {name} and is {request.name}: its package is all over the project"
        todo = "give back the name, or make a new project with redco-new"
        raise RedcoError(f"{REDCO_TOML}: name", what, todo)
    return request


def parsed(content: bytes, standing: Standing) -> Request:
    """What a redco.toml of these bytes asks for. Raises RedcoError, which names the key."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RedcoError(REDCO_TOML, f"not UTF-8: {error}", "mend that line") from error
    return Request.from_toml(text, REDCO_TOML, standing.root)


def settle_toml(standing: Standing, asked: Request, request: Request, theirs: bytes) -> Outcome:
    """What becomes of redco.toml, which asks for `asked`, so that it asks for `request`.

    What the user changed in it is not an edit to be kept from redco: it is what was asked for. So the
    base is the template's text of just that. theirs: the template's text of `request`.
    Raises Refusal if the flags would change what the user has written in a way of their own.
    """

    def says(content: bytes, wanted: Request) -> bool:
        try:
            return parsed(content, standing) == wanted
        except RedcoError:
            return False

    ours, base = standing.ours(REDCO_TOML), standing.base(REDCO_TOML, theirs)
    between = theirs.replace(request.to_toml().encode(), asked.to_toml().encode())
    first = merge_text(base or b"", ours, between)
    start = first.content if not first.conflicts and says(first.content, asked) else ours
    merged = merge_text(between, start, theirs)
    if merged.conflicts or not says(merged.content, request):
        raise flags_do_not_fit(asked, request)
    return Outcome(REDCO_TOML, ours, merged.content)


def flags_do_not_fit(asked: Request, request: Request) -> Refusal:
    """The error for a redco.toml that cannot be made to ask for `request`."""
    known = asked.to_toml().splitlines()
    wanted = ", ".join(line for line in request.to_toml().splitlines() if line not in known)
    what = "the flags change lines that you wrote in a way of your own, and nothing was changed"
    todo = f"write {wanted} there yourself, and run it again without the flags"
    return Refusal(REDCO_TOML, what, todo)
