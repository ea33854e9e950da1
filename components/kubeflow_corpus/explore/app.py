"""The web application of ``kubeflow-corpus explore``: which address shows what."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, urlencode

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from kubeflow_corpus.collections import COLLECTIONS, CollectionSpec, find_collection
from kubeflow_corpus.errors import CorpusError, EvaluationError, InvalidArgument, PermissionDenied, QueryError
from kubeflow_corpus.evaluation.asked import SECTIONS
from kubeflow_corpus.evaluation.questions import settable_filters
from kubeflow_corpus.explore import structure
from kubeflow_corpus.explore.asked import MAX_QUERY_CHARACTERS, AskedLog, Tests, chosen_filters
from kubeflow_corpus.explore.choices import FORM_FILTERS, MAX_SHOWN, Asking
from kubeflow_corpus.explore.corpus import Corpus, page_of
from kubeflow_corpus.explore.guard import Guard
from kubeflow_corpus.explore.originals import Original, Originals, blocks
from kubeflow_corpus.explore.searching import LISTS, ask, weigh
from kubeflow_corpus.explore.texts import plain, short, shown, web_address
from kubeflow_corpus.query.hit import Hit
from kubeflow_corpus.query.tuning import FUSIONS, MODES, PROGRAM_LIMITS
from kubeflow_corpus.reports.pages import templates_of
from kubeflow_corpus.store.schema import HEAD_PREFIX, MODEL_KEY, TOKEN_BUDGET_KEY

Result = TypeVar("Result")
Endpoint = Callable[[Request], Awaitable[Response]]

STATIC: Final = Path(__file__).with_name("static")
# Three collections with two settings each, at once.
SEARCHES: Final = 6
# Rows of a document, and lines of an original, on one page.
ROWS: Final = 40
LINES: Final = 400
CHANGES: Final = 200


class Explorer:
    """The pages over one corpus.

    Args:
        corpus: What is shown.
        originals: Where the texts are that documents were cut from.
        log: Questions that were asked.
        tests: Where a question becomes a test.
    """

    def __init__(self, corpus: Corpus, originals: Originals, log: AskedLog, tests: Tests) -> None:
        self._corpus = corpus
        self._originals = originals
        self._log = log
        self._tests = tests
        self._searches = ThreadPoolExecutor(SEARCHES, thread_name_prefix="explore-search")
        self._templates = templates_of("kubeflow_corpus.explore", "kubeflow_corpus.reports")
        self._templates.filters.update(shown=shown, short=short, plain=plain, web_address=web_address, quoted=quote)

    def app(self) -> Starlette:
        """Returns the application."""
        pages = {
            "/": self.search,
            "/browse": self.browse,
            "/source": self.source,
            "/document": self.document,
            "/versions": self.versions,
            "/questions": self.questions,
            "/question": self.question,
            "/test": self.test,
        }
        routes = [Route(path, _answered(self, endpoint)) for path, endpoint in pages.items()]
        routes.append(Route("/test", _answered(self, self.add_test), methods=["POST"]))
        style = self._templates.get_template("page.css").render()
        routes.append(Route("/page.css", lambda _: Response(style, media_type="text/css")))
        static = Mount("/static", StaticFiles(directory=STATIC), name="static")
        return Starlette(routes=[*routes, static], middleware=[Middleware(Guard)])

    # ---- pages

    async def search(self, request: Request) -> Response:
        """Shows the form, and what the collections answer to the question in the address."""
        fields = request.query_params
        try:
            asking = Asking.read(fields, fields.getlist("in"), fields.getlist("expected"))
        except InvalidArgument as error:
            return self._page("search.html", status=400, asking=Asking(fields.get("q", "")), problem=str(error))
        if not asking.question:
            return self._page("search.html", asking=asking)
        answers = await _in_thread(partial(ask, self._corpus.client, asking, self._searches))
        return self._page("search.html", asking=asking, answers=answers)

    async def browse(self, request: Request) -> Response:
        """Shows the collections with their sources."""
        return self._page("browse.html", served=await _in_thread(self._corpus.served))

    async def source(self, request: Request) -> Response:
        """Shows the documents of a source, page by page."""
        fields = request.query_params
        spec = find_collection(fields.get("in", ""))
        name, wanted = fields.get("source", ""), fields.get("find", "").strip()
        documents = await _in_thread(partial(self._corpus.documents, spec.name, name))
        if wanted:
            documents = tuple(line for line in documents if wanted.lower() in f"{line.path}\n{line.title}".lower())
        listed = page_of(documents, _page_number(fields))
        return self._page("source.html", spec=spec, source=name, find=wanted, listed=listed, pages=_pages(request))

    async def document(self, request: Request) -> Response:
        """Shows a document as it was cut, or beside its original."""
        fields = request.query_params
        spec, unit = find_collection(fields.get("in", "")), fields.get("unit", "")
        rows = await _in_thread(partial(self._corpus.rows, spec.name, fields.get("id", ""), unit))
        if not rows:
            raise InvalidArgument(f"{spec.alias} has no document {(fields.get('id') or unit)[:200]!r}", argument="id")
        document_id = str(rows[0]["document_id"])
        of_unit = [row for row in rows if row["unit_id"] == unit] if unit else rows
        values: dict[str, Any] = {"spec": spec, "document_id": document_id, "first": rows[0], "unit": unit}
        values |= {"numbers": {row["id"]: number for number, row in enumerate(rows, 1)}, "pages": _pages(request)}
        values["units"] = Counter(str(row["unit_id"]) for row in rows)
        if fields.get("view") == "original":
            original = await _in_thread(partial(self._original, spec.name, document_id))
            if isinstance(original, str):
                return self._page("original.html", missing=original, original=None, listed=None, **values)
            listed = page_of(original.lines, _page_number(fields), LINES)
            return self._page("original.html", missing="", original=original, listed=listed, blocks=blocks, **values)
        crd = [str(row["content_text"]) for row in of_unit if structure.is_custom_resource(row)]
        values["tree"] = structure.field_tree(crd) if crd else None
        listed = page_of(of_unit, _page_number(fields), ROWS)
        return self._page("document.html", listed=listed, thread_parts=structure.thread_parts, **values)

    async def versions(self, request: Request) -> Response:
        """Shows the versions of each collection, and how two of one differ."""
        fields = request.query_params
        if not fields.get("in"):
            kept = {spec: await _in_thread(partial(self._corpus.versions, spec.name)) for spec in COLLECTIONS}
            return self._page("versions.html", kept=kept)
        spec = find_collection(fields["in"])
        before, now = (_whole(fields, name) for name in ("from", "to"))
        found = await _in_thread(partial(self._corpus.differences, spec.name, before, now))
        chosen = [change for change in found.changes if fields.get("state", "") in ("", change.state)]
        listed = page_of(chosen, _page_number(fields), CHANGES)
        values: dict[str, Any] = {"spec": spec, "before": before, "now": now, "found": found, "listed": listed}
        return self._page("differences.html", pages=_pages(request), state=fields.get("state", ""), **values)

    async def questions(self, request: Request) -> Response:
        """Shows what was asked, by what was wrong with the answers."""
        fields = request.query_params
        days = _whole(fields, "days") if fields.get("days") else 0
        report = await _in_thread(partial(self._log.report, days))
        if report is None:
            return self._page("questions.html", report=None, log=self._log.path)
        kind = fields.get("show", "") if fields.get("show") in SECTIONS else ""
        groups = report.section(kind) if kind else report.groups
        values: dict[str, Any] = {"kind": kind, "days": days, "sections": SECTIONS, "pages": _pages(request)}
        return self._page("questions.html", report=report, listed=page_of(groups, _page_number(fields)), **values)

    async def question(self, request: Request) -> Response:
        """Shows one question with what was found."""
        asked = await _in_thread(partial(self._log.find, request.query_params.get("id", "")))
        keys = [unit for unit, _ in asked.units]
        units = await _in_thread(partial(self._corpus.units, asked.collection, keys))
        filters = {name: ",".join(value) if isinstance(value, list) else value for name, value in asked.filters.items()}
        again = Asking(asked.question, (find_collection(asked.collection).name,), filters)
        return self._page(
            "question.html", asked=asked, units=units, again=again, spec=find_collection(asked.collection)
        )

    async def test(self, request: Request) -> Response:
        """Shows the form that makes a test of a question and the unit that answers it."""
        fields = request.query_params
        spec = find_collection(fields.get("in", ""))
        hit = await _in_thread(partial(self._tests.unit, spec.name, fields.get("unit", "")))
        return self._test_page(spec, hit, fields.get("q", ""), chosen_filters(spec, fields))

    async def add_test(self, request: Request) -> Response:
        """Adds a test to the set."""
        fields = dict(parse_qsl((await request.body()).decode("utf-8", "replace")))
        try:
            added = await _in_thread(partial(self._tests.add, fields))
        except (PermissionDenied, EvaluationError) as error:
            spec = find_collection(fields.get("in", ""))
            hit = await _in_thread(partial(self._tests.unit, spec.name, fields.get("unit", "")))
            filters = chosen_filters(spec, fields)
            status = 403 if isinstance(error, PermissionDenied) else 400
            return self._test_page(
                spec, hit, fields.get("q", ""), filters, problem=str(error), status=status, given=fields
            )
        return self._page("added.html", added=added, path=self._tests.path)

    # ---- parts

    def _test_page(
        self,
        spec: CollectionSpec,
        hit: Hit,
        question: str,
        filters: Mapping[str, str],
        *,
        problem: str = "",
        status: int = 200,
        given: Mapping[str, str] | None = None,
    ) -> Response:
        values: dict[str, Any] = {"spec": spec, "hit": hit, "question": question, "filters": filters}
        return self._page(
            "test.html", status=status, problem=problem, given=given or {}, path=self._tests.path, **values
        )

    def _original(self, collection: str, document_id: str) -> Original | str:
        client = self._corpus.client
        tokens = client.properties(collection).get(TOKEN_BUDGET_KEY, "")
        if not tokens.isdigit():
            return "The collection does not record how many tokens its model reads."
        return self._originals.find(document_id, int(tokens), client.vocabulary(collection))

    def problem(self, error: CorpusError) -> Response:
        """Returns the page that says what went wrong."""
        status = 400 if isinstance(error, QueryError) else 503
        return self._page("problem.html", status=status, error=str(error))

    def _page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        text = self._templates.get_template(template).render({**_COMMON, **values})
        return HTMLResponse(text.encode("utf-8", "replace"), status_code=status)


def _answered(explorer: Explorer, endpoint: Endpoint) -> Endpoint:
    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except CorpusError as error:
            return explorer.problem(error)

    return answer


async def _in_thread(work: Callable[[], Result]) -> Result:
    return await asyncio.to_thread(work)


def _page_number(fields: Mapping[str, str]) -> int:
    text = fields.get("page", "")
    return int(text[:9]) if text.isascii() and text.isdigit() else 1


def _whole(fields: Mapping[str, str], name: str) -> int:
    text = fields.get(name, "")
    if not (text.isascii() and text.isdigit()):
        raise InvalidArgument(f"{name} is {text[:80]!r}", remedy="Use the number of a version", argument=name)
    return int(text[:9])


def _pages(request: Request) -> Callable[[int], str]:
    """Returns what makes the address of another page of the same list."""
    fields = [(name, value) for name, value in request.query_params.multi_items() if name != "page"]
    return lambda number: f"{request.url.path}?{urlencode([*fields, ('page', number)], errors='replace')}"


def _link(path: str, **fields: Any) -> str:
    return f"{path}?{urlencode(fields, errors='replace')}"


def _test_link(spec: CollectionSpec, question: str, unit_id: str, filters: Mapping[str, Any]) -> str:
    """Returns the address of the form that makes a test; of the filters it has those of one value, as a set does."""
    return _link("/test", **{"q": question, "in": spec.name, "unit": unit_id, **settable_filters(filters)})


# What every template may use.
_COMMON: Final[Mapping[str, Any]] = {
    "collections": COLLECTIONS,
    "form_filters": FORM_FILTERS,
    "fusions": FUSIONS,
    "modes": MODES,
    "most_hits": MAX_SHOWN,
    "limits": PROGRAM_LIMITS,
    "most_characters": MAX_QUERY_CHARACTERS,
    "rows_on_page": ROWS,
    "lists": LISTS,
    "link": _link,
    "test_link": _test_link,
    "weigh": weigh,
    "heads_of": lambda properties: {
        name.removeprefix(HEAD_PREFIX): value for name, value in properties.items() if name.startswith(HEAD_PREFIX)
    },
    "model_key": MODEL_KEY,
    "day": lambda seconds: datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M"),
    "problem": "",
    "answers": (),
}
