"""The pages say what the kept runs say: nobody edits one without the other."""

from __future__ import annotations

import re
from pathlib import Path

from shardwheel.bench import page
from shardwheel.bench.campaign import RUNS, keep
from shardwheel.bench.measure import machine
from shardwheel.bench.report import Tabled, markdown, tables_of
from shardwheel.bench.scale import need_of, scale_page, units
from shardwheel.bench.tick import print_result

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "bench" / "results"
DOCS = ROOT / "docs"


def test_the_pages_are_those_of_the_kept_runs() -> None:
    runs = page.read_runs(RESULTS)
    again = "run `shardctl bench page`"
    assert (DOCS / "benchmarks.md").read_text() == page.benchmarks_page(runs, RESULTS), again
    assert (DOCS / "scale.md").read_text() == scale_page(runs, page.text(RESULTS, "scale")), again


def test_every_picture_of_the_page_is_there_and_no_other() -> None:
    named = set(re.findall(r"\]\((pictures/bench-[^)]+)\)", (DOCS / "benchmarks.md").read_text()))
    assert {str(path.relative_to(DOCS)) for path in (DOCS / "pictures").glob("bench-*.png")} == named


def test_every_kept_file_belongs_to_a_run() -> None:
    assert {path.stem for path in RESULTS.glob("*.json")} <= {run.name for run in RUNS}
    by_hand = {path.stem for path in (RESULTS / "earlier").glob("*.md")} - {"notes"}
    assert by_hand <= {run.name for run in RUNS}


def tick_result() -> dict[str, object]:
    return {
        "held": 1_000,
        "rate": 50.0,
        "p50_ms": 1.5,
        "p99_ms": 12.25,
        "max_ms": 40.0,
        "bare_ack_p99_ms": 9.0,
        "fires": 77,
        "missed": 0,
        "doubled": 0,
        "histogram_ms": [(1.0, 70), (45.0, 7)],
        "machine": machine(),
    }


def test_a_run_takes_the_place_of_what_was_measured_by_hand(tmp_path: Path) -> None:
    results, docs = tmp_path / "results", tmp_path / "docs"
    for folder in ("earlier", "texts"):
        (results / folder).mkdir(parents=True)
        for path in (RESULTS / folder).iterdir():
            (results / folder / path.name).write_text(path.read_text())
    kept = {"command": "shardctl bench tick", "began_at": "2026-11-18T08:00Z", "took_s": 61}
    keep(results / "tick.json", kept | {"result": tick_result()})
    page.write_pages(results, docs)
    text = (docs / "benchmarks.md").read_text()
    section = text.partition("## Tick latency")[2].partition("\n## ")[0]
    assert "an earlier figure" not in section
    assert "`shardctl bench tick`, 2026-11-18T08:00Z, 61 s." in section
    assert "| fire time to acknowledgement, p50, ms | 1.5 |" in section
    assert (docs / "pictures" / "bench-tick.png").exists()


def test_tables_are_collected_instead_of_printed() -> None:
    (table,) = tables_of(print_result, tick_result())
    assert table.title == "1,000 held, 50 fires a second"
    assert ["fires", "77"] in [list(row) for row in table.rows]


def test_a_bar_in_a_cell_does_not_end_it() -> None:
    assert markdown(Tabled("t", ["a", "b"], [["x|y", "1"]])).splitlines()[-1] == "| x\\|y | 1 |"


def test_more_executions_take_more_of_everything() -> None:
    unit = units({})
    few, many = need_of(10_000_000, unit), need_of(2_000_000_000, unit)
    assert few.shards == 3
    assert all(more >= less for less, more in zip(few, many, strict=True))
    assert many.topic_partitions & (many.topic_partitions - 1) == 0


def test_a_unit_cost_of_a_run_is_preferred_and_named() -> None:
    run = {"command": "shardctl bench fire", "began_at": "today", "result": {"fires_per_s": 5}}
    unit = units({"fire": run})["fires a second of one shard"]
    assert unit.value == 5
    assert "shardctl bench fire" in unit.source
