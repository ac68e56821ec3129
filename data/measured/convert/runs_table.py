"""Tables as they are published, and tables of measured runs as `pipesim accuracy` reads them.

A script gives `main()` the columns that it reads and a function from the rows of a published table to Runs. A value that
can't be read ends the script with FILE:LINE, what was found and what is allowed.
"""

import argparse
import csv
import dataclasses
import math
import sys

# The columns that tables of measured runs must have, by the kind of their rows.
NEEDED = {"run": ("model", "devices", "recipe", "batch"), "collective": ("devices", "collective", "members", "size"),
          "mixture": ("product_alone", "collective_alone", "to_device_alone", "to_host_alone")}


@dataclasses.dataclass
class Run:
    """A row of a table of measured runs. `pipesim help accuracy --all` says what the columns hold."""
    name: str
    model: str = ""
    devices: str = ""
    recipe: str = ""
    batch: int | str = ""
    runtime: str = ""
    time: str = ""
    time_of: str = ""
    memory: str = ""
    memory_of: str = ""
    memory_figure: str = ""
    state: str = ""
    status: str = ""
    reason: str = ""
    group: list = dataclasses.field(default_factory=list)
    workload: str = ""
    compared_with: str = ""
    traits: dict = dataclasses.field(default_factory=dict)
    gradient_type: str = ""
    optimizer: str = ""
    workspace: str = ""
    collective: str = ""
    members: int | str = ""
    size: str = ""
    type: str = ""
    product_alone: str = ""
    collective_alone: str = ""
    to_device_alone: str = ""
    to_host_alone: str = ""
    source: str = ""

    def cells(self):
        cells = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        cells["group"] = ";".join(self.group)
        cells["traits"] = ";".join(f"{name}={value}" for name, value in self.traits.items())
        return {name: str(value) for name, value in cells.items()}


def seconds(value):
    return f"{value!r} s"


def size(value):
    return f"{int(value)} B"


def part_of(preset, each, devices):
    """Returns the text of `devices` devices of a preset that has `each` a node, or None where nodes are not whole."""
    if devices < 1:
        return None
    if devices < each:
        return f"{preset}:gpus={devices}"
    return f"{preset}:{devices // each}" if devices % each == 0 else None


class Row:
    """A row of a published table."""

    def __init__(self, file, line, cells):
        self.file, self.line, self.cells = file, line, cells

    def refuse(self, message):
        sys.exit(f"{self.file}:{self.line}: {message}")

    def text(self, column):
        return self.cells[column]

    def count_or_none(self, column):
        """0 where the cell is empty; refuses all but whole numbers of 0 or more."""
        text = self.text(column)
        if text and not (text.isascii() and text.isdigit()):
            self.refuse(f'column "{column}": found "{text}", allowed: a whole number, or nothing')
        return int(text or 0)

    def count(self, column):
        """Refuses all but whole numbers of 1 or more."""
        if self.count_or_none(column) < 1:
            self.refuse(f'column "{column}": found "{self.text(column)}", allowed: 1 or more')
        return self.count_or_none(column)

    def number(self, column):
        """0 where the cell is empty; commas may divide thousands; refuses all but finite numbers of 0 or more."""
        text = self.text(column)
        try:
            value = float(text.replace(",", "") or 0)
        except ValueError:
            value = -1
        if not (value >= 0 and math.isfinite(value)):
            self.refuse(f'column "{column}": found "{text}", allowed: a number of 0 or more, or nothing')
        return value

    def flag(self, column):
        text = self.text(column)
        if text.lower() not in ("true", "false", ""):
            self.refuse(f'column "{column}": found "{text}", allowed: True, False, or nothing')
        return text.lower() == "true"

    def with_cells(self, **cells):
        return Row(self.file, self.line, {**self.cells, **cells})


def read(file):
    """Returns the names of the columns and the rows of a published table."""
    with open(file, encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(text, strict=True)
        try:
            columns = next(reader, [])
            rows = []
            line = reader.line_num + 1
            for cells in reader:
                if len(cells) != len(columns):
                    sys.exit(f"{file}:{line}: found {len(cells)} cells, allowed: {len(columns)}, one for each column")
                rows.append(Row(file, line, dict(zip(columns, cells))))
                line = reader.line_num + 1
        except csv.Error as error:
            sys.exit(f"{file}:{reader.line_num}: {error}")
    if len(set(columns)) < len(columns):
        sys.exit(f"{file}:1: two columns have the same name")
    if not rows:
        sys.exit(f"{file}: has no rows below its column names")
    return columns, rows


def require(file, columns, needed):
    for column in needed:
        if column not in columns:
            sys.exit(f'{file}:1: has no column "{column}", allowed: {", ".join(needed)} and others')


def write(runs, kind, out):
    """Writes the columns that the kind of row must have, and those that a row has a value in. Runs are compared only
    with such as the table has."""
    names = {run.name for run in runs}
    rows = [run.cells() for run in runs]
    for row in rows:
        if row["compared_with"] not in names:
            row["compared_with"] = ""
    # Without its column, runs on the same devices would be compared with each other.
    always = NEEDED[kind] + (("name", "workload") if kind == "run" else ("name",))
    columns = [c for c in rows[0] if c in always or any(row[c] for row in rows)]
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([row[c] for c in columns] for row in rows)


def main(what, needed, runs_of, kind="run"):
    """Reads the table that the command line names and prints the table of measured runs, or writes it to `-o FILE`."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("table", help="the published table, a CSV file")
    parser.add_argument("-o", "--output", help="where the table of measured runs goes; left out, stdout")
    arguments = parser.parse_args()
    columns, rows = read(arguments.table)
    if callable(needed):
        needed = needed(columns)
    require(arguments.table, columns, needed)
    if callable(kind):
        kind = kind(columns)
    runs = runs_of(rows)
    if arguments.output:
        with open(arguments.output, "w", encoding="utf-8", newline="") as out:
            write(runs, kind, out)
    else:
        write(runs, kind, sys.stdout)
