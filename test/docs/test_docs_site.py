"""Pages of modules: each layer has a section on its topic's page, and signs of Markdown are escaped."""

import flambeau
from build_support import docs_site


def test_every_layer_has_a_section_that_the_list_links_to():
    pages = docs_site.pages_of("nn")
    assert set(pages) == {"nn.md", *(f"layers/{topic}.md" for topic in docs_site.TOPICS)}
    for name, value in docs_site.public_members(flambeau.nn):
        file = f"layers/{docs_site._topic(value)}.md"
        assert f"\n## {name}\n" in pages[file] and f"[{name}]({file}#{name.lower()})" in pages["nn.md"]


def test_a_section_shows_signature_formula_arguments_links_and_example():
    page = docs_site.pages_of("nn.functional")["nn.functional.md"]
    section = page.partition("## softmin\n")[2].partition("\n## ")[0]
    assert "softmin(input: Tensor, dim: int | None = None" in section
    assert "**Formula**\n\n```text\nresult = e^-input / sum along dim of e^-input\n```" in section
    assert "- `input`: the scores; the smallest one gets the largest result." in section
    assert "[softmax](/modules/nn.functional.md#softmax)" in section
    assert "```python\n>>> flambeau.nn.functional.softmin(" in section


def test_signs_of_markdown_are_escaped_outside_of_code():
    assert docs_site._markdown("a_b * c in ``d_e`` [f]") == r"a\_b \* c in `d_e` \[f\]"
