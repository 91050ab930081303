"""The page in a real browser: it loads from disk, and selections change what they should."""

import base64
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from t2t_jax.explain.explained import explain_control
from t2t_jax.explain.page import page
from t2t_jax.explain.words import STAGES, labels
from tests.explain.models import KINDS, document, large_document, trained

pytestmark = pytest.mark.browser

WIDE, NARROW = 1400, 400
# What lies upon each other, and texts that run out of their box.
_OVERLAPS = (Path(__file__).parent / "overlaps.js").read_text("utf-8")


@pytest.fixture(scope="module")
def browser():
    driver, chromium = shutil.which("chromedriver"), shutil.which("chromium")
    if driver is None or chromium is None:
        pytest.skip("no chromium and chromedriver in PATH: the page is not tried in a browser")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--lang=en"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options, webdriver.ChromeService(driver))
    yield chrome
    chrome.quit()


@pytest.fixture
def opened(browser, tmp_path):
    """Opens documents as a page, and gives the browser."""

    def open_page(sentences, width=WIDE, language="en", dark=False):
        path = tmp_path / "page.html"
        path.write_text(page(sentences, language), "utf-8")
        metrics = dict(width=width, height=900, deviceScaleFactor=1, mobile=False)
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        browser.get_log("browser")
        browser.get(path.as_uri())
        assert browser.execute_script("return document.documentElement.dataset.ready") == "yes"
        return browser

    return open_page


def _element(browser, selector):
    return browser.find_element("css selector", selector)


def _texts(browser, selector):
    script = "return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent)"
    return browser.execute_script(script, selector)


def _choose(browser, selector, value):
    """What a user does who picks an option."""
    from selenium.webdriver.support.select import Select

    Select(_element(browser, selector)).select_by_value(value)


def _numbers(browser, stage, name):
    """The numbers of a map that is shown as a table."""
    rows = browser.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map((row) => "
        "[...row.querySelectorAll('td')].map((cell) => cell.textContent))",
        f"#stage-{stage} [data-map={name}] tbody tr",
    )
    return [[text.replace("\N{MINUS SIGN}", "-") for text in row] for row in rows]


def _written(matrix, digits):
    return [[f"{value:.{digits}f}" for value in row] for row in matrix.astype(np.float64)]


def _keys(browser, *keys):
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(browser).send_keys(*keys).perform()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_it_loads_from_disk_without_a_complaint_and_reaches_for_nothing(kind, dark, opened):
    documents = [document(kind), explain_control(trained(kind), document(kind))]
    for sentences in ([[document(kind)]], [documents]):
        browser = opened(sentences, dark=dark)
        for language in ("de", "en"):
            _choose(browser, "#language", language)
        assert browser.get_log("browser") == []
        loaded = "return performance.getEntriesByType('resource').map((each) => each.name)"
        assert browser.execute_script(loaded) == []
        assert len(_texts(browser, "section h2")) >= 5


@pytest.mark.parametrize(
    "one, other",
    [
        ("encoder_decoder", "classifier"),
        ("classifier", "encoder_decoder"),
        ("encoder_only", "decoder_only"),
        ("recurrent", "encoder_decoder"),
    ],
)
def test_models_of_two_families_stand_side_by_side(one, other, opened):
    browser = opened([[document(one), document(other)]])
    for looks in browser.execute_script("return kindsOfAttention()"):
        _choose(browser, "#looks", looks)
    assert browser.get_log("browser") == []
    shown = _texts(browser, "section .shown")
    assert len(shown) == 2 * len(_texts(browser, "section")) and all(shown)
    assert labels("en")["nothing_there"] in shown


def test_what_one_of_two_models_has_more_of_can_be_chosen(opened):
    whole = document()
    narrow = [
        stack._replace(
            attentions=[
                attention._replace(
                    **{
                        name: getattr(attention, name)[:1]
                        for name in ("weights", "scores", "query", "key", "context_cosine")
                    }
                )
                for attention in stack.attentions[:2]
            ]
        )
        for stack in whole.stacks
    ]
    smaller = whole._replace(stacks=narrow, steps=whole.steps[:2])
    browser = opened([[smaller, whole]])
    _choose(browser, "#looks", "decoder")
    _choose(browser, "#layer", "1")
    _choose(browser, "#head", "1")
    browser.execute_script("choose({ step: 5 })")
    for place, (layer, head, step) in enumerate([(0, 0, 1), (1, 1, 5)]):
        box = f"#stage-steps [data-document='{place}']"
        assert f"(Layer {layer + 1}, Head {head + 1})" in _texts(browser, f"{box} h4")[1]
        assert _element(browser, f"{box} [data-step]").get_attribute("value") == str(step)
        box = f"#stage-heads [data-document='{place}']"
        assert _texts(browser, f"{box} label:has(:checked)") == [str(head + 1)]
        script = "return document.querySelectorAll(arguments[0]).length"
        assert browser.execute_script(script, f"{box} [data-key='0'] i") == 1
        assert browser.execute_script(script, f"{box} [data-thumbnail][aria-pressed=true]") == 1


def test_a_control_is_said_to_be_one_and_has_no_search(opened):
    learned = document()._replace(label="control")
    browser = opened([[learned, explain_control(trained(), learned)]])
    assert _texts(browser, "#stage-search h3") == ["control", labels("en")["control"]]
    assert _texts(browser, "#stage-search [data-document='1'] .shown") == [
        labels("en")["not_searched"]
    ]


def test_what_a_user_wrote_is_text_in_the_page(opened):
    evil = "<script>document.title='evil'</script> & <b>bold</b>"
    browser = opened([[document()._replace(text=evil, label=evil)]])
    assert evil in _texts(browser, "#stage-text .quote")
    assert (
        browser.execute_script("return document.querySelectorAll('b b, #about script').length") == 0
    )
    assert "evil'" in browser.title or browser.title.startswith("A sentence")
    assert browser.get_log("browser") == []


def test_the_numbers_that_are_shown_are_those_that_were_captured(opened):
    found = document()
    browser = opened([[found]])
    _element(browser, "#numbers").click()
    for looks, layer, head in (("encoder", 0, 0), ("decoder", 1, 1), ("cross", 1, 0)):
        _choose(browser, "#looks", looks)
        _choose(browser, "#layer", str(layer))
        _choose(browser, "#head", str(head))
        attention = found.attention(looks, layer)
        assert _numbers(browser, "attention", "weights") == _written(attention.weights[head], 2)
        assert _numbers(browser, "attention", "scaled") == _written(attention.scores[head], 2)
        raw = attention.scores[head] * np.float32(np.sqrt(attention.query.shape[-1]))
        shown = np.array(_numbers(browser, "attention", "raw"), float)
        np.testing.assert_allclose(shown, raw, atol=0.0051)
        mask = np.array(_numbers(browser, "attention", "mask"))
        visible = np.tri(*raw.shape) if looks == "decoder" else np.ones_like(raw)
        assert (mask == "1").tolist() == (visible > 0).tolist()
        cosine = _numbers(browser, "contexts", "context_cosine")
        np.testing.assert_allclose(
            np.array(cosine, float), attention.context_cosine[head], atol=0.0061
        )
        stack = found.stack("decoder" if looks == "decoder" else "encoder")
        states = np.array(_numbers(browser, "contexts", "state_cosine"), float)
        after = len(stack.cosine) - 1 if looks == "cross" else layer + 1
        np.testing.assert_allclose(states, stack.cosine[after], atol=0.0051)
        layers = found.stack("encoder" if looks == "encoder" else "decoder").sub_layers
        cosines = np.clip([each.cosine for each in layers], -1, 1)
        angles = np.array(_numbers(browser, "residual", "angle"), float)
        np.testing.assert_allclose(angles, np.degrees(np.arccos(cosines)), atol=0.051)
        shares = np.array(_numbers(browser, "residual", "share"), float)
        np.testing.assert_allclose(
            shares, [each.update / each.length for each in layers], atol=0.0051
        )
    _choose(browser, "#looks", "encoder")
    shown = np.array(_numbers(browser, "feed_forward", "active"), float)
    np.testing.assert_allclose(shown, found.stack("encoder").active, atol=0.0051)


def test_neighbours_and_positions_are_those_of_the_token_and_the_layout_that_are_chosen(opened):
    found = document()
    browser = opened([[found]])
    _element(browser, "[data-token='4']").click()
    near = found.stack("encoder").neighbours[4]
    assert _texts(browser, ".near td:first-child") == [each.token.piece for each in near]
    cosines = [text.replace("\N{MINUS SIGN}", "-") for text in _texts(browser, ".near .value")]
    assert cosines == [f"{each.cosine:.3f}" for each in near]
    for name, vectors in found.layouts.items():
        _choose(browser, "[data-layout]", name)
        _element(browser, "[data-map=positions] canvas").click()
        _keys(browser, *(4 * ["\ue014"]), *(3 * ["\ue015"]))  # right, down
        (readout,) = _texts(browser, "[data-map=positions] .readout")
        row, column, value = re.fullmatch(r"(\d+) → (\d+): (.*)", readout).groups()
        value = float(value.replace("\N{MINUS SIGN}", "-"))
        np.testing.assert_allclose(value, vectors[int(row), int(column)], atol=0.0015)


def test_maps_that_are_drawn_anew_are_those_of_the_head_that_is_chosen(opened):
    from selenium.webdriver.common.keys import Keys

    found = document()
    browser = opened([[found]])

    def maps():
        return browser.execute_script(
            "return [...document.querySelectorAll('#stage-attention canvas')]"
            ".map((each) => each.toDataURL())"
        )

    first = maps()
    _choose(browser, "#head", "1")
    second = maps()
    alike = [one == other for one, other in zip(first, second, strict=True)]
    assert alike == [False, False, False, False, True, False], "only the mask is the same"
    _element(browser, "[data-map=weights] canvas").click()
    _keys(browser, *(9 * [Keys.ARROW_UP]), *(9 * [Keys.ARROW_LEFT]))
    readout = _texts(browser, "#stage-attention [data-map=weights] .readout")
    value = found.attention("encoder", 0).weights[1, 0, 0]
    assert readout[0].endswith(f": {value:.3f}")
    _choose(browser, "#head", "0")
    assert maps() == first


def test_hovering_a_token_shows_whom_it_looks_at_and_a_click_keeps_it(opened):
    from selenium.webdriver.common.action_chains import ActionChains

    found = document()
    browser = opened([[found]])
    button = _element(browser, "#stage-heads [data-query='3']")
    ActionChains(browser).scroll_to_element(button).move_to_element(button).perform()
    canvas = "#stage-heads .between canvas"
    assert _element(browser, canvas).get_attribute("data-query") == "3"
    weights = found.attention("encoder", 0).weights[:, 3].mean(0)
    best = found.stack("encoder").tokens[int(weights.argmax())].piece
    (readout,) = _texts(browser, "#stage-heads .readout")
    assert f"→ {best} {weights.max():.3f}" in readout
    strips = browser.execute_script(
        "return [...document.querySelectorAll('#stage-heads [data-key]')]"
        ".map((key) => [...key.querySelectorAll('i')].map((strip) => Number(strip.style.opacity)))"
    )
    np.testing.assert_allclose(
        np.array(strips).T, found.attention("encoder", 0).weights[:, 3], atol=1e-4
    )
    ActionChains(browser).move_to_element(_element(browser, "#stage-heads h2")).perform()
    assert _element(browser, canvas).get_attribute("data-query") == "all"
    button = _element(browser, "#stage-heads [data-query='3']")
    button.click()
    ActionChains(browser).move_to_element(_element(browser, "#stage-heads h2")).perform()
    assert _element(browser, canvas).get_attribute("data-query") == "3"


def test_heads_can_be_shown_one_several_or_all(opened):
    browser = opened([[document()]])
    shown = "return document.querySelectorAll('#stage-heads [data-key=\"0\"] i').length"
    assert browser.execute_script(shown) == 2
    _choose(browser, "#head", "1")
    assert browser.execute_script(shown) == 1
    _element(browser, "[data-all]").click()
    assert browser.execute_script(shown) == 2
    _element(browser, "[data-head='0']").click()
    assert browser.execute_script(shown) == 1
    _element(browser, "[data-thumbnail='0']").click()
    assert _element(browser, "#head").get_attribute("value") == "0"


def test_the_slider_goes_through_the_steps_of_decoding(opened):
    from selenium.webdriver.common.keys import Keys

    found = document()
    browser = opened([[found]])
    for step, each in enumerate(found.steps[:4]):
        rows = browser.execute_script(
            "return [...document.querySelectorAll('#stage-steps .candidates tbody tr')]"
            ".map((row) => [...row.children].map((cell) => cell.textContent))"
        )
        assert [row[0] for row in rows][: len(each.best)] == [
            candidate.token.piece for candidate in each.best
        ]
        for row, candidate in zip(rows, each.best, strict=False):
            assert row[2].replace("\N{MINUS SIGN}", "-") == f"{candidate.logit:.2f}"
            assert row[3] == f"{candidate.probability:.3f}"
        marked = [row[0] for row in rows if "chosen" in row[4]]
        assert marked == [each.chosen.token.piece]
        weights = found.attention("decoder", 0).weights[0, step]
        looked = _texts(browser, "#stage-steps [data-looked=decoder] li span")
        assert looked[: step + 1] == [f"{weight:.2f}" for weight in weights[: step + 1]]
        assert set(looked[step + 1 :]) <= {"–"}
        _element(browser, "[data-step]").send_keys(Keys.ARROW_RIGHT)


def test_the_slider_can_be_dragged(opened):
    from selenium.webdriver import ActionChains

    browser = opened([[document()]])
    slider = _element(browser, "#stage-steps [data-step]")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", slider)
    width = slider.size["width"]
    drag = ActionChains(browser).move_to_element_with_offset(slider, 8 - width // 2, 0)
    drag.click_and_hold()
    for _ in range(4):
        drag.move_by_offset(width // 5, 0)
    drag.release().perform()
    step, last = (
        int(_element(browser, "#stage-steps [data-step]").get_attribute(name))
        for name in ("value", "max")
    )
    assert step > last / 2 > 0


def test_decoding_shows_the_chosen_layer_where_layers_have_two_self_attentions(opened):
    browser = opened([[document(**{"model.num_self_attentions": 2})]])
    # Of the decoder's self-attentions, the third is the first of layer 2.
    for looks, place, layer in (("cross", 1, 2), ("decoder", 2, 2), ("decoder", 1, 1)):
        _choose(browser, "#looks", looks)
        _choose(browser, "#layer", str(place))
        titles = _texts(browser, "#stage-steps .side-of-text:has([data-looked]) h4")
        assert [f"(Layer {layer}, Head 1)" in title for title in titles] == [True, True]


@pytest.mark.parametrize("language", ["en", "de"])
def test_the_language_is_the_readers_choice(language, opened):
    browser = opened([[document()]], language="de" if language == "en" else "en")
    _choose(browser, "#language", language)
    titles = [stage.title[language] for stage in STAGES]
    assert [text for text in _texts(browser, "section h2") if text not in titles] == []
    assert _texts(browser, "h1") == [labels(language)["title"]]
    assert browser.execute_script("return document.documentElement.lang") == language
    assert any(labels(language)["by_distance"] == text for text in _texts(browser, "figcaption"))
    probability = f"{document().steps[0].best[0].probability:.3f}"
    shown = _texts(browser, "#stage-steps .candidates .value")[0]
    assert shown == (probability.replace(".", ",") if language == "de" else probability)


def test_the_tree_has_every_leaf_and_its_best_is_the_output(opened):
    found = document()
    browser = opened([[found]])
    for search in found.searches:
        leaves = [node for node in search.tree.nodes if node.ending is not None]
        box = f"#stage-search [data-search={search.name}]"
        shown = _texts(browser, f"{box} li:not([data-ending='']) > .run .facts")
        assert len(shown) == len(leaves)
        (best,) = (text for text in shown if "★" in text)
        assert f"score {search.score:.3f}".replace("-", "\N{MINUS SIGN}") in best
        won = _texts(browser, f"{box} li.won > .run b")
        path = [search.pieces[place] for place in search.tree.path(search.tree.best)]
        assert " ".join(won) == " ".join(path)


@pytest.mark.parametrize("width", [NARROW, WIDE])
@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize("beside", [False, True])
def test_nothing_overlaps_and_nothing_is_wider_than_the_page(width, language, beside, opened):
    long = document().steps[0].chosen.token._replace(piece="▁Wahrscheinlichkeiten")
    steps = [step._replace(best=[step.best[0]._replace(token=long)]) for step in document().steps]
    small = document()._replace(steps=steps)
    documents = [small, explain_control(trained(), small)] if beside else [small]
    browser = opened([documents], width, language)
    for numbers in (False, True):
        if numbers:
            _element(browser, "#numbers").click()
        for looks in ("encoder", "cross"):
            _choose(browser, "#looks", looks)
            script = (
                "const { scrollWidth, clientWidth } = document.documentElement;"
                "return scrollWidth - clientWidth"
            )
            assert browser.execute_script(script) <= 0
            assert browser.execute_script(_OVERLAPS) == []


def test_the_keyboard_alone_suffices(opened):
    from selenium.webdriver.common.keys import Keys

    browser = opened([[document()]])
    _element(browser, "body").click()
    browser.execute_script("document.activeElement.blur()")

    def tab_to(selector):
        for _ in range(120):
            _keys(browser, Keys.TAB)
            script = "return document.activeElement.matches(arguments[0])"
            if browser.execute_script(script, selector):
                return
        raise AssertionError(f"{selector} cannot be reached")

    tab_to("#looks")
    _keys(browser, Keys.ARROW_DOWN)
    assert _element(browser, "#looks").get_attribute("value") == "decoder"
    assert browser.execute_script("return document.activeElement.id") == "looks"
    tab_to("#layer")
    _keys(browser, Keys.ARROW_DOWN)
    tab_to("#head")
    _keys(browser, Keys.ARROW_DOWN)
    assert _element(browser, "#head").get_attribute("value") == "1"
    tab_to("#numbers")
    tab_to("[data-token]")
    _keys(browser, Keys.ARROW_RIGHT)
    _keys(browser, Keys.ENTER)
    assert _element(browser, "[data-token='1']").get_attribute("aria-pressed") == "true"
    tab_to("#stage-attention canvas")
    _keys(browser, Keys.ARROW_DOWN)
    _keys(browser, Keys.ARROW_RIGHT)
    assert re.search(r"→ .*: ", "".join(_texts(browser, "#stage-attention .readout")))
    tab_to("#stage-heads [data-head]")
    _keys(browser, Keys.SPACE)
    tab_to("#stage-heads [data-query]")
    _keys(browser, Keys.ARROW_DOWN)
    canvas = _element(browser, "#stage-heads .between canvas")
    assert canvas.get_attribute("data-query") == "1"
    tab_to("#stage-heads [data-thumbnail]")
    tab_to("[data-step]")
    _keys(browser, Keys.ARROW_RIGHT)
    assert _element(browser, "[data-step]").get_attribute("value") == "1"
    assert browser.execute_script("return document.activeElement.matches('[data-step]')")
    tab_to("#stage-search .scroll")


def test_several_sentences_are_a_list_to_choose_from(opened):
    other = document()._replace(text="another one")
    browser = opened([[document()], [other]])
    _choose(browser, "#sentence", "1")
    assert "another one" in _texts(browser, "#stage-text .quote")


def test_another_head_of_a_six_layer_model_is_there_within_a_tenth_of_a_second(opened):
    browser = opened([[large_document(num_layers=6, num_tokens=30)]])
    taken = {head: [] for head in (1, 2, 3, 4, 5, 6, 7, 0)}
    for head in 5 * list(taken):
        _choose(browser, "#head", str(head))
        took = browser.execute_script("return document.documentElement.dataset.took")
        taken[head].append(float(took))
    # Whatever else runs on the machine only adds: a head's best time is its own.
    best = {head: min(times) for head, times in taken.items()}
    print(f"milliseconds for another head: {best}")
    assert max(best.values()) < 100


def test_numbers_of_sixteen_bits_are_read_as_numpy_reads_them(opened):
    browser = opened([[document()]])
    values = np.array([0, -0.0, 1, -2.5, 65504, 6e-8, 6.1e-5, 3.14159, 1e-3], np.float16)
    packed = {"shape": [len(values)], "float16": base64.b64encode(values.tobytes()).decode()}
    found = browser.execute_script("return [...unpack(arguments[0]).data]", packed)
    np.testing.assert_array_equal(np.array(found, np.float16), values)
