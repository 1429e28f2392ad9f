"""The page of `redco inspect --html`: complete, well formed, and of a file that is ours to write."""

import re
from html.parser import HTMLParser
from pathlib import Path

import jax
import pytest
import samples

from redco_new.errors import RedcoError
from redco_new.inspect import page
from redco_new.inspect.document import plan_document
from redco_new.inspect.drawing import draw_parameter
from redco_plan import plan_sharding

VOID = {"meta", "rect", "br"}
MESH = {"data": 1, "fsdp": 2, "expert": 2, "model": 4}


class Page(HTMLParser):
    """A page, read: `cards` has the texts and the classes of the rectangles of each parameter."""

    def __init__(self, text):
        super().__init__()
        self.open, self.cards, self.attributes = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.attributes += attrs
        if attrs.get("class") == "tensor":
            self.cards.append(([], []))
        if tag == "rect":
            self.cards[-1][1].append(attrs["class"].split())
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)

    def handle_data(self, data):
        if "section" in self.open:
            self.cards[-1][0].extend(data.strip().split("\n"))


def read(plan):
    found = Page(page.render_page(plan_document("small", plan)))
    assert found.open == []
    return found


def layers(n):
    """A model of n layers, unrolled."""

    def forward(params, batch):
        x = batch["x"]
        for w in params["layers"]:
            x = x + jax.nn.relu(x @ w["<script>up"]) @ w["down"]
        return x

    params = {"layers": [samples.shapes(**{"<script>up": (64, 256)}, down=(256, 64))] * n}
    return plan_sharding(forward, params, samples.shapes(x=(8, 64)), {"fsdp": 2, "model": 4})


def test_each_parameter_is_drawn_in_its_parts():
    cards = {texts[1]: rects for texts, rects in read(samples.PLAN).cards}
    assert cards.keys() == {"embed/table", "up", "down", "scale", "head"}
    for name in ("embed/table", "up", "down", "head"):
        kinds = [rect[0] for rect in cards[name]]
        assert [kinds.count(kind) for kind in ("stripe", "cut", "band")] == [4, 1, 4 + 2]
        colours = {(rect[0], rect[1]) for rect in cards[name] if len(rect) > 1}
        assert {("stripe", "axis-model"), ("cut", "axis-fsdp")} <= colours
    assert [rect[0] for rect in cards["scale"]] == ["face", "mine"]


def test_alike_layers_are_drawn_once_and_all_are_named():
    cards = read(layers(120)).cards
    assert len(cards) == 2
    named = [text for texts, _ in cards for text in texts]
    for i in range(120):
        assert f"layers/{i}/<script>up" in named
        assert f"layers/{i}/down" in named


def test_names_of_parameters_are_escaped():
    text = page.render_page(plan_document("<b>", layers(1)))
    assert "<script" not in text and "<b>" not in text
    assert "layers/0/&lt;script&gt;up" in text


def test_nothing_is_fetched():
    text = page.render_page(plan_document("small", samples.PLAN))
    assert not re.search(r"https?:|src=|href=|@import|url\(", text)


def row(shape, dims, spec):
    return {"stored_shape": shape, "dims": dims, "spec": spec}


def test_sides_are_to_scale():
    one = draw_parameter(row([400, 100], ["vocab", "embed"], ["model", None]), MESH, 1600)
    assert (one.width, one.height) == (55.0, 110.0)
    assert one.mine == (55.0, 27.5)
    assert [(s.y, s.height) for s in one.stripes] == [(27.5 * i, 27.5) for i in range(4)]


def test_layers_are_a_stack():
    one = draw_parameter(row([28, 64], ["layers", "embed"], [None, None]), MESH, 64)
    assert (one.stack, len(one.sheets), one.stripes) == ("28 layers", 3, [])


def test_experts_are_a_stack_with_a_sheet_for_each_part():
    spec = ["expert", "fsdp", "model"]
    one = draw_parameter(row([8, 32, 64], ["experts", "embed", "mlp"], spec), MESH, 64)
    assert (one.stack, one.sheets, one.stack_colour) == ("8 experts in 2 parts", [3], "expert")
    router = draw_parameter(row([32, 8], ["embed", "experts"], ["fsdp", "expert"]), MESH, 64)
    assert (router.stack, len(router.stripes)) == ("", 2)


def test_heads_and_their_insides_are_one_side():
    one = draw_parameter(
        row([64, 4, 16], ["embed", "heads", "head_dim"], [None, "model", None]), MESH, 64
    )
    assert (one.width, one.height, one.stack, len(one.stripes)) == (220.0, 220.0, "", 4)


def test_two_axes_on_a_side_have_a_band_each():
    mesh = {"model_1": 2, "model_2": 3}
    one = draw_parameter(row([12], ["mlp"], [["model_1", "model_2"]]), mesh, 12)
    assert len(one.stripes) == 6
    assert [band.colour for band in one.bands] == ["model_1"] * 2 + ["model_2"] * 6
    assert len({band.y for band in one.bands}) == 2


def test_a_page_replaces_a_page_and_nothing_else(tmp_path):
    target, doc = tmp_path / "plan.html", plan_document("small", samples.PLAN)
    page.check_page_target(target)
    page.write_page(target, {**doc, "model": "old"})
    page.check_page_target(target)
    page.write_page(target, doc)
    assert "<title>small: how it is split</title>" in target.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["plan.html"]
    for content in (b"mine", b"\xff\xfe"):
        target.write_bytes(content)
        with pytest.raises(RedcoError, match="not a page of redco inspect"):
            page.check_page_target(target)


def test_a_disk_that_refuses_is_told(tmp_path, monkeypatch):
    def refuse(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(RedcoError, match="cannot be written: No space left on device"):
        page.write_page(tmp_path / "plan.html", plan_document("small", samples.PLAN))
    assert list(Path(tmp_path).iterdir()) == []
