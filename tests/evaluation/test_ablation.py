from kubeflow_corpus.evaluation.ablation import Variant, cells, heading, row, variants
from kubeflow_corpus.evaluation.metrics import Answer
from kubeflow_corpus.evaluation.questions import Question
from kubeflow_corpus.query.tuning import DEFAULT_TUNING


def answers(*ranks: int) -> list[Answer]:
    asked = [Question(str(number), "?", "docs", "howto", {"r/r:a": 3}) for number in range(len(ranks))]
    return [
        Answer(question, tuple((f"r/r:{'a' if place == rank else place}",) for place in range(1, 11)))
        for question, rank in zip(asked, ranks, strict=True)
    ]


def test_each_setting_is_varied_alone_and_the_default_comes_first() -> None:
    found = list(variants())
    assert (found[0].group, found[0].tuning) == ("default", DEFAULT_TUNING)
    assert {variant.group for variant in found} >= {"mode", "fusion", "dense weight", "pool", "threshold", "preference"}
    assert len({(variant.group, variant.name) for variant in found}) == len(found)
    changed = [variant for variant in found[1:] if variant.tuning != DEFAULT_TUNING or variant.options]
    assert len(changed) == len(found) - 1
    assert found[0].tuning == DEFAULT_TUNING, "the defaults are not touched"


def test_the_table_tells_a_difference_from_noise() -> None:
    default = answers(*[1] * 20)
    rows = [
        row(Variant("default", "default"), default, default),
        row(Variant("mode", "dense"), answers(*[2] * 20), default),
        row(Variant("pool", "20"), answers(*[1] * 19, 2), default),
    ]
    text = [*heading(default).splitlines(), *map(cells, rows)]
    assert text[0].startswith("| setting | value | hit@1 | hit@5 | mrr@10 |")
    assert text[2].startswith("| default | default | 1.000 | 1.000 | 1.000 |")
    assert text[3].startswith("| mode | dense | 0.000 -1.000 | 1.000 | 0.500 -0.500 |")
    assert text[4].startswith("| pool | 20 | 0.950 (-0.050) | 1.000 | 0.975 (-0.025) |")
