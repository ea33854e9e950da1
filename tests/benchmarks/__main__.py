"""`python -m tests.benchmarks`: runs the benchmarks, prints one table, writes one JSON and one HTML page."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

from tests.benchmarks.harness import Report, html, table


def found() -> list[str]:
    """Returns the names of the benchmarks in this folder."""
    return sorted(path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py"))


def main() -> int:
    """Returns 0 where every figure is what is asked for, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(found())}; all without any")
    parser.add_argument("--scale", type=float, default=1.0, help="how much to measure: 0.2 is a quick look")
    parser.add_argument("--out", type=Path, default=Path("local/benchmarks"), help="folder of the JSON and the page")
    options = parser.parse_args()
    unknown = set(options.names) - set(found())
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(found())}")
    report = Report()
    for name in options.names or found():
        report.rows[name] = []
        for row in import_module(f"tests.benchmarks.bench_{name}").measure(options.scale):
            report.rows[name].append(row)
            ratio = "" if row.ratio is None else f", ratio {row.ratio:.3f}"
            print(f"{name}: {row.name}: {row.value:,.4g} {row.unit}{ratio}", file=sys.stderr, flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "benchmarks.json").write_text(report.to_json())
    (options.out / "benchmarks.html").write_text(html(report))
    print(table(report))
    print(f"\nwritten to {options.out}/benchmarks.json and .html")
    return 1 if report.missed() else 0


if __name__ == "__main__":
    sys.exit(main())
