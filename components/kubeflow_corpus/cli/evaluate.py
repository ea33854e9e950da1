"""``kubeflow-corpus eval run|known-items|ablate|add``: measures, explains and grows from failures."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

from kubeflow_corpus.collections import COLLECTION_NAMES, find_collection
from kubeflow_corpus.errors import EvaluationError
from kubeflow_corpus.evaluation.questions import (
    BEST_GRADE,
    Question,
    add_question,
    load_questions,
    settable_filters,
    unit_address,
)
from kubeflow_corpus.reports.pages import EXPLORER_URL

if TYPE_CHECKING:
    from kubeflow_corpus.evaluation.baseline import Setup
    from kubeflow_corpus.evaluation.metrics import Answer, Difference
    from kubeflow_corpus.query.client import CorpusClient
    from kubeflow_corpus.query.options import ClientOptions
    from kubeflow_corpus.query.question_log import AskedQuestion
    from kubeflow_corpus.vocabulary import Vocabulary

DEFAULT_SAMPLE: Final = 200
# A local measurement waits for a busy machine; the deadline of a served search is not what is measured.
TIMEOUT_SECONDS: Final = 60.0
PASSED, FAILED = 0, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the subcommands."""
    commands = parser.add_subparsers(dest="action", required=True, metavar="run|known-items|ablate|add")

    run_ = commands.add_parser("run", help="ask a question set; the exit code says pass (0) or fail (1)")
    _common(run_)
    run_.add_argument("--against", type=Path, metavar="BASELINE.json", help="fail where a metric got worse than this")
    run_.add_argument("--tolerance", type=float, help="allowed loss of a metric's mean (default 0.02)")
    run_.add_argument("--save-baseline", type=Path, metavar="FILE", help="record this run as a baseline")
    run_.add_argument(
        "--known-items", type=int, default=0, metavar="N", help="also ask N known items of each collection of the set"
    )
    _measured(run_)

    items = commands.add_parser(
        "known-items", help="ask a corpus for its own headings, titles and descriptions of symbols: needs no questions"
    )
    items.add_argument(
        "--tool", choices=COLLECTION_NAMES, action="append", default=[], help="only these collections (default: docs)"
    )
    items.add_argument("--sample", type=int, default=DEFAULT_SAMPLE, metavar="N", help="most questions per collection")
    items.add_argument("--save", type=Path, metavar="QUESTIONS.jsonl", help="keep them, for eval run or the gate")
    _measured(items)

    ablate = commands.add_parser("ablate", help="compare modes, weights, pools, thresholds and corpora in one table")
    _common(ablate)
    ablate.add_argument("--group", action="append", default=[], help="only these settings, such as 'dense weight'")
    ablate.add_argument(
        "--corpus",
        action="append",
        default=[],
        metavar="NAME=MILVUS_URI",
        help="also ask another corpus, such as one made with another chunker (may be repeated)",
    )

    add = commands.add_parser("add", help="write a question from a query and what should answer it")
    add.add_argument("questions", type=Path, help="question set to add to")
    add.add_argument("query", nargs="?", default="", help="the question as it was asked (default: that of --from)")
    add.add_argument(
        "--from", dest="request", default="", metavar="REQUEST_ID", help="take the question from the log of questions"
    )
    add.add_argument("--log", type=Path, metavar="FILE", help="that log (default: the file of QUESTION_LOG)")
    add.add_argument("--tool", choices=COLLECTION_NAMES, default="", help="which collection (default: that of --from)")
    add.add_argument(
        "--kind", default="", help="what sort of question it is, such as howto (default with --from: asked)"
    )
    add.add_argument("--expected", action="append", default=[], metavar="REPO:PATH[=GRADE]")
    add.add_argument(
        "--unit",
        action="append",
        default=[],
        metavar="UNIT_ID|RANK",
        help="the unit that answers it, by its key or its rank in the logged answer",
    )
    add.add_argument("--must-contain", action="append", default=[], metavar="TEXT")
    add.add_argument("--product-area", default="")
    _catalogue(add)
    add.add_argument("--id", default="", help="made from the number of questions if left out")


def _measured(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--floor", action="append", default=[], metavar="METRIC=VALUE", help="fail below it, e.g. hit@5=0.95"
    )
    parser.add_argument("--report", type=Path, metavar="OUT.html", help="write the HTML report")
    parser.add_argument(
        "--history", type=Path, metavar="FILE.jsonl", help="add this run to the file; the report shows the last runs"
    )
    parser.add_argument(
        "--explorer",
        default=EXPLORER_URL,
        metavar="URL",
        help="page of `explore` that misses link to (default: %(default)s)",
    )
    parser.add_argument("--junit", type=Path, metavar="OUT.xml", help="write JUnit XML, one test case per question")
    parser.add_argument("--mode", choices=("hybrid", "dense", "bm25"), help="instead of the router's choice")
    parser.add_argument("--json", action="store_true", help="print the metrics as JSON")


def run(args: argparse.Namespace) -> int:
    """Runs one subcommand."""
    actions: dict[str, Callable[[argparse.Namespace], int]] = {
        "run": _run,
        "known-items": _known_items,
        "ablate": _ablate,
        "add": _add,
    }
    return actions[args.action](args)


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("questions", type=Path, help="JSONL file of questions")
    parser.add_argument(
        "--tool", choices=COLLECTION_NAMES, action="append", default=[], help="only questions for these tools"
    )
    _catalogue(parser)


def _catalogue(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--catalogue", default="", metavar="FILE", help="its vocabulary lists the products (default: the packaged one)"
    )


def _run(args: argparse.Namespace) -> int:
    from kubeflow_corpus.evaluation.baseline import DEFAULT_TOLERANCE, Baseline, check_floors, gate
    from kubeflow_corpus.evaluation.metrics import compare_scores, score
    from kubeflow_corpus.evaluation.run import setup_of

    # Everything that can be wrong is checked before the questions are asked, which takes minutes.
    questions, floors = _questions(args), dict(map(_floor, args.floor))
    check_floors(floors)
    baseline = Baseline.read(args.against) if args.against else None
    options: dict[str, Any] = {"mode": args.mode} if args.mode else {}
    with _client() as client:
        if args.known_items:
            tools = [question.tool for question in questions]
            items = _items_of(client, tools, args.known_items)
            questions += tuple(replace(item, kind=f"known item: {item.kind}") for item in items)
        setup = setup_of(client, questions)
        if baseline:
            baseline.require_same(setup)
        client.warm_up()
        answers = _answers(client, questions, options)
    tolerance = DEFAULT_TOLERANCE if args.tolerance is None else args.tolerance
    verdict = gate(answers, baseline=baseline, tolerance=tolerance, floors=floors)
    scores = {answer.question.id: score(answer) for answer in answers}
    differences = compare_scores(scores, baseline.scores) if baseline else ()
    _write(args, f"Retrieval over {args.questions.name}", setup, answers, differences, verdict.failures)
    if args.save_baseline:
        Baseline(setup, scores).write(args.save_baseline)
    _print(args, answers, differences, verdict.failures)
    return PASSED if verdict.passed else FAILED


def _known_items(args: argparse.Namespace) -> int:
    from kubeflow_corpus.evaluation.baseline import check_floors, gate
    from kubeflow_corpus.evaluation.run import setup_of

    floors = dict(map(_floor, args.floor))
    check_floors(floors)
    with _client() as client:
        questions = _items_of(client, args.tool or ["docs"], args.sample)
        setup = setup_of(client, questions)
        answers = _answers(client, questions, {"mode": args.mode} if args.mode else {}, label="known items")
    if args.save:
        args.save.parent.mkdir(parents=True, exist_ok=True)
        lines = (json.dumps(question.to_dict(), ensure_ascii=False) + "\n" for question in questions)
        args.save.write_text("".join(lines), "utf-8")
    verdict = gate(answers, floors=floors)
    _write(args, "Known items", setup, answers, (), verdict.failures)
    _print(args, answers, (), verdict.failures)
    if not args.json:
        _print_groups(answers)
    return PASSED if verdict.passed else FAILED


def _items_of(client: CorpusClient, collections: Sequence[str], sample: int) -> tuple[Question, ...]:
    from kubeflow_corpus.evaluation.known_items import fields_of, known_items

    if sample < 1:
        raise EvaluationError(f"--sample {sample} does not say how many known items to ask", remedy="Ask at least 1")
    questions: list[Question] = []
    for name in dict.fromkeys(collections):
        spec = find_collection(name)
        found = known_items(client.every_row(name, fields_of(spec)), spec, sample)
        if not found:
            raise EvaluationError(
                f"Nothing in {name} occurs once and has enough words to be asked",
                remedy="Ask another collection (--tool)",
            )
        questions += found
    return tuple(questions)


def _print_groups(answers: Sequence[Answer]) -> None:
    from kubeflow_corpus.evaluation.metrics import break_down

    groups = {
        "kind": break_down(answers, lambda answer: f"{answer.question.tool} {answer.question.kind}"),
        "product": break_down(answers, lambda answer: answer.question.product_area or "any"),
    }
    for name, summaries in groups.items():
        for group, summary in summaries.items():
            figures = " ".join(
                f"{metric} {summary[metric].mean:.3f}" for metric in ("hit@1", "hit@3", "hit@5", "mrr@10")
            )
            print(f"  {name} {group} ({summary['hit@1'].count}): {figures}")


def _ablate(args: argparse.Namespace) -> int:
    from kubeflow_corpus.embedding.factory import embedder_from_settings
    from kubeflow_corpus.evaluation.ablation import Variant, cells, heading, row, variants
    from kubeflow_corpus.evaluation.replay import CachingReader
    from kubeflow_corpus.settings import Settings

    questions = _questions(args)
    known = [*dict.fromkeys(variant.group for variant in variants())]
    for group in args.group:
        if group not in known:
            raise EvaluationError(f"There is no setting {group!r}", remedy=f"Use one of {', '.join(known)}")
    chosen = [v for v in variants() if v.group == "default" or not args.group or v.group in args.group]
    corpora = dict(map(_corpus, args.corpus))
    settings = Settings.from_env()
    embedder = embedder_from_settings(settings, for_queries=True)
    default: tuple[Answer, ...] = ()

    def show(variant: Variant, answers: tuple[Answer, ...]) -> None:
        # Each line is printed as soon as it is known: over a large corpus the table takes minutes.
        nonlocal default
        if not default:
            default = answers
            print(heading(answers), flush=True)
        print(cells(row(variant, answers, default)), flush=True)

    try:
        with _client(embeddings=embedder, reader=CachingReader(settings)) as client:
            client.warm_up()
            for variant in chosen:
                label = f"{variant.group} {variant.name}"
                show(variant, _answers(client.tuned(variant.tuning), questions, variant.options, label=label))
        for name, uri in corpora.items():
            with _client(milvus_uri=uri, embeddings=embedder) as client:
                client.warm_up()
                show(Variant("corpus", name), _answers(client, questions, {}, label=name))
    finally:
        embedder.close()
    return PASSED


def _add(args: argparse.Namespace) -> int:
    vocabulary = _vocabulary(args)
    asked = _find_logged_question(args)
    query, tool = args.query or (asked.question if asked else ""), args.tool or (asked.collection if asked else "")
    if not query or not tool:
        raise EvaluationError(
            "The question or its tool is missing", remedy="Give a query and --tool, or --from REQUEST_ID"
        )
    expected = dict(map(_graded, args.expected))
    if args.unit:
        expected |= dict.fromkeys(_addresses(tool, args.unit, asked), BEST_GRADE)
    if not expected:
        raise EvaluationError(
            "Nothing says what would be right",
            remedy="Give --expected REPO:PATH, or --unit with a unit_id (or, with --from, the rank of a hit)",
        )
    question = Question(
        id=args.id,
        query=query,
        tool=find_collection(tool).name,
        kind=args.kind or ("asked" if asked else ""),
        expected=expected,
        any_of=len(expected) > 1 and len(set(expected.values())) == 1,
        filters=settable_filters(asked.filters) if asked else {},
        must_contain=tuple(args.must_contain),
        product_area=args.product_area,
    )
    added = add_question(args.questions, question, vocabulary)
    line = json.dumps(added.to_dict(), ensure_ascii=False)
    print(f"added {added.id} to {args.questions}: {line}")
    return PASSED


def _find_logged_question(args: argparse.Namespace) -> AskedQuestion | None:
    """Finds the question that ``--from`` names; None where it names none."""
    if not args.request:
        return None
    from kubeflow_corpus.query.question_log import find_question
    from kubeflow_corpus.settings import Settings

    log = args.log or Path(Settings.from_env().question_log or "")
    if log == Path(""):
        raise EvaluationError("--from needs the log of questions", remedy="Name it with --log, or set QUESTION_LOG")
    asked = find_question(log, args.request)
    if asked is None:
        raise EvaluationError(
            f"{log} has no request {args.request!r}", remedy="Take its id from `kubeflow-corpus questions`"
        )
    if "{" in asked.question and not args.query:
        print("note: something was taken out of this question; give QUERY to ask it in other words", file=sys.stderr)
    return asked


def _addresses(tool: str, units: Sequence[str], asked: AskedQuestion | None) -> list[str]:
    """Returns the addresses of units that are named by their keys, or by their ranks in a logged answer."""
    found = [unit for unit, _ in asked.units] if asked else []
    keys = []
    for text in units:
        if text.isdigit() and not 1 <= int(text) <= len(found):
            raise EvaluationError(
                f"--unit {text}: the log has {len(found)} hits of this request", remedy="Name a unit_id"
            )
        keys.append(found[int(text) - 1] if text.isdigit() else text)
    with _client() as client:
        hits = [client.get_unit(key, collection=tool).hit for key in keys]
    return [unit_address(hit.repo, hit.file_path, hit.document_id, hit.unit_id) for hit in hits]


def _questions(args: argparse.Namespace) -> tuple[Question, ...]:
    every = load_questions(args.questions, _vocabulary(args))
    questions = tuple(q for q in every if not args.tool or q.tool in args.tool)
    if not questions:
        raise EvaluationError(f"{args.questions} has no question for {', '.join(args.tool)}", remedy="Drop --tool")
    return questions


def _vocabulary(args: argparse.Namespace) -> Vocabulary | None:
    """Returns the vocabulary of the catalogue that is named, which takes a YAML parser; None is the packaged one."""
    if not args.catalogue:
        return None
    from kubeflow_corpus.sources.catalogue import load_catalogue

    return load_catalogue(args.catalogue).vocabulary


def _client(**options: Unpack[ClientOptions]) -> CorpusClient:
    from kubeflow_corpus.query.client import CorpusClient
    from kubeflow_corpus.settings import Settings

    options.setdefault("timeout", TIMEOUT_SECONDS)
    return CorpusClient(settings=Settings.from_env().unlogged(), **options)


def _answers(
    client: CorpusClient, questions: Sequence[Question], options: Mapping[str, Any], *, label: str = "questions"
) -> tuple[Answer, ...]:
    from kubeflow_corpus.evaluation.run import ClientSearcher, ask

    terminal = sys.stderr.isatty()

    def progress(done: int, total: int) -> None:
        if terminal:
            print(f"\r{label}: {done}/{total}", end="\n" if done == total else "", file=sys.stderr, flush=True)

    return ask(ClientSearcher(client, options), questions, progress)


def _write(
    args: argparse.Namespace,
    title: str,
    setup: Setup,
    answers: Sequence[Answer],
    differences: Sequence[Difference],
    failures: Sequence[str],
) -> None:
    from kubeflow_corpus.evaluation.history import add_run
    from kubeflow_corpus.evaluation.report import about_run, to_html, to_junit

    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    history = add_run(args.history, at, setup, answers) if args.history else ()
    if args.report:
        page = to_html(
            title,
            answers,
            differences,
            failures,
            about=about_run(at, setup),
            history=history,
            explorer=args.explorer,
        )
        args.report.parent.mkdir(parents=True, exist_ok=True)
        args.report.write_text(page, "utf-8")
    if args.junit:
        args.junit.parent.mkdir(parents=True, exist_ok=True)
        args.junit.write_text(to_junit(answers), "utf-8")


def _print(
    args: argparse.Namespace, answers: Sequence[Answer], differences: Sequence[Difference], failures: Sequence[str]
) -> None:
    from kubeflow_corpus.evaluation.metrics import latency, summarize
    from kubeflow_corpus.evaluation.report import explain
    from kubeflow_corpus.evaluation.run import misses

    summary, times = summarize(answers), latency(answers)
    if args.json:
        means = {name: interval.mean for name, interval in summary.items()}
        print(json.dumps({"metrics": means, "latency_ms": times, "failures": list(failures)}, indent=1))
        return
    print(f"{len(answers)} questions, p50 {times['p50']:.0f} ms, p95 {times['p95']:.0f} ms")
    for name, interval in summary.items():
        print(f"  {name:<14} {interval.mean:.3f}  [{interval.low:.3f}, {interval.high:.3f}]")
    for change in differences:
        verdict = "noise" if change.is_noise else "significant"
        print(f"  {change.metric:<14} {change.delta.mean:+.3f} against the baseline ({verdict})")
    for answer in misses(answers):
        print(f"  miss {answer.question.id}: {answer.question.query!r}: {explain(answer)}")
    for line in failures:
        print(f"FAILED: {line}")


def _floor(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError as error:
        raise EvaluationError(f"--floor {text!r} is not METRIC=VALUE", remedy="Write it as hit@5=0.95") from error


def _corpus(text: str) -> tuple[str, str]:
    name, _, uri = text.partition("=")
    if not name or not uri:
        raise EvaluationError(f"--corpus {text!r} is not NAME=MILVUS_URI", remedy="Write it as small=local/small.db")
    return name, uri


def _graded(text: str) -> tuple[str, int]:
    address, separator, grade = text.rpartition("=")
    return (address, int(grade)) if separator and grade.isdigit() else (text, BEST_GRADE)
