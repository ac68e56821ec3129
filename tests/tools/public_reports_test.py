"""The public reports in data/measured/public_reports.csv, and their list in docs/fidelity.md.

Usage: public_reports_test.py PIPESIM
"""

import csv
import importlib.machinery
import importlib.util
import json
import pathlib
import re
import stat
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILE = "public_reports.csv"
PROGRAM = ""


def script():
    """tools/scripts/fidelity-tables as a module."""
    loader = importlib.machinery.SourceFileLoader("fidelity_tables", str(ROOT / "tools" / "scripts" / "fidelity-tables"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def rows():
    with open(ROOT / "data" / "measured" / FILE, encoding="utf-8", newline="") as table:
        return list(csv.DictReader(table))


class Table(unittest.TestCase):
    def test_has_both_kinds_of_reports(self):
        expressed = [row for row in rows() if not row["reason"]]
        self.assertGreaterEqual(len(expressed), 40)
        self.assertGreaterEqual(sum(row["status"] == "oom" for row in expressed), 12)
        self.assertGreaterEqual(sum(row["memory"] != "" for row in expressed), 12)

    def test_each_row_tells_what_ran_and_where_it_is_reported(self):
        names = [row["name"] for row in rows()]
        self.assertEqual(sorted(names), sorted(set(names)))
        for row in rows():
            with self.subTest(row["name"]):
                self.assertIn(row["status"], ("ok", "oom"))
                self.assertRegex(row["source"], r"^https://github.com/[^/; ]+/[^/; ]+/(issues/\d+|blob/[0-9a-f]{40}/[^; ]+)(; assumed: .+)?$")
                self.assertFalse(row["status"] == "oom" and row["memory"])
                self.assertTrue(all(row[column] for column in ("model", "devices", "recipe", "batch")))


class Listed(unittest.TestCase):
    def test_as_the_program_says(self):
        page = (ROOT / "docs" / "fidelity.md").read_text(encoding="utf-8")
        listed = re.search(rf"<!-- reports {FILE} -->\n\n(.*?)\n\n<!-- end -->", page, re.DOTALL).group(1)
        self.assertEqual(listed, script().reports(PROGRAM, FILE), f"run tools/scripts/fidelity-tables {PROGRAM} {FILE}")


class Made(unittest.TestCase):
    """The list of a small table, as of a program that says what this one prints."""

    HEAD = "name,status,memory,reason,source\n"
    AT = "https://github.com/a/b/"

    def listed(self, table, runs):
        with tempfile.TemporaryDirectory() as folder:
            module = script()
            module.ROOT = pathlib.Path(folder)
            measured = module.ROOT / "data" / "measured"
            measured.mkdir(parents=True)
            (measured / "t.csv").write_text(self.HEAD + table)
            program = module.ROOT / "program"
            program.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps({'tables': [{'runs': runs}]})}\nEND\n")
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
            return module.reports(str(program), "t.csv")

    def test_says_which_verdicts_are_right(self):
        table = (f"first,ok,59 GB,,{self.AT}issues/7\n"
                 f"second,ok,,,{self.AT}blob/main/docs/page.md; assumed: 512 tokens\n"
                 f"third,oom,,,{self.AT}issues/8\n"
                 f"fourth,oom,,,{self.AT}issues/9\n"
                 f"fifth,ok,,a reason,{self.AT}issues/10\n")
        runs = [{"name": "first", "fits": True, "predicted_peak_bytes": 60e9}, {"name": "second", "fits": False, "predicted_peak_bytes": 99e9},
                {"name": "third", "fits": False, "predicted_peak_bytes": 81.25e9}, {"name": "fourth", "fits": True, "predicted_peak_bytes": 1e9},
                {"name": "fifth", "reason": "a reason"}]
        self.assertEqual(
            self.listed(table, runs),
            "4 of 5 reports can be expressed. The verdict is right for 2 of them (50 %): 1 of 2 that trained, and 1 of 2 that ran out of "
            "memory.\n\n"
            "| | what ran | not told, so assumed | reported | pipesim | verdict | source |\n|---:|---|---|---|---|---|---|\n"
            f"| 1 | first |  | trained, 59 GB | 60.0 GB, fits | right | [a/b#7]({self.AT}issues/7) |\n"
            f"| 2 | second | 512 tokens | trained | 99.0 GB, does not fit | **wrong** | [a/b, page.md]({self.AT}blob/main/docs/page.md) |\n"
            f"| 3 | third |  | out of memory | 81.2 GB, does not fit | right | [a/b#8]({self.AT}issues/8) |\n"
            f"| 4 | fourth |  | out of memory | 1.0 GB, fits | **wrong** | [a/b#9]({self.AT}issues/9) |\n"
            f"| 5 | fifth |  | trained |  | not expressed: a reason | [a/b#10]({self.AT}issues/10) |")

    def test_refuses_other_rows(self):
        with self.assertRaisesRegex(SystemExit, "^fidelity-tables: accuracy prints other rows than t.csv has$"):
            self.listed(f"first,ok,,,{self.AT}issues/7\n", [{"name": "another"}])


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
