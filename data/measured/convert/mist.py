"""Products, collectives and host copies that ran side by side on the GPUs of a node (Dazz993/Mist, Apache-2.0).

Each GPU multiplies matrices (gemm_n, gemm_m, gemm_k), exchanges g2g_MB within groups of intra_group, and copies c2g_MB from
and g2c_MB to the host. What each part takes alone follows from the first, third, ... rows with that part alone: overhead +
amount by rate, the least squares of relative errors. The second, fourth, ... rows are judged.
"""

from runs_table import Run, main, seconds

PARTS = ("product", "collective", "copy to device", "copy to host")


def amounts(row):
    return (row.number("gemm_n") * row.number("gemm_m") * row.number("gemm_k"), row.number("g2g_MB"), row.number("c2g_MB"),
            row.number("g2c_MB"))


def key(part, row):
    return row.text("gpu"), part, 0 if part == 0 else row.count("intra_group")  # products know no members


class AloneFit:
    """Sums over rows with a part alone."""

    def __init__(self):
        self.ones = self.mixed = self.squares = self.times = self.products = 0.0

    def add(self, amount, time):
        self.ones += 1 / (time * time)
        self.mixed += amount / (time * time)
        self.squares += amount * amount / (time * time)
        self.times += 1 / time
        self.products += amount / time

    def line(self):
        """Overhead, and time by amount; through 0 where the rows say no more."""
        plain = 0.0, self.products / self.squares
        determinant = self.ones * self.squares - self.mixed * self.mixed
        if determinant <= 1e-12 * self.ones * self.squares:
            return plain
        overhead = (self.times * self.squares - self.products * self.mixed) / determinant
        each = (self.ones * self.products - self.mixed * self.times) / determinant
        return plain if overhead < 0 or each <= 0 else (overhead, each)


def fits_of(rows):
    fits = {}
    for row in rows[::2]:
        there = [part for part, amount in enumerate(amounts(row)) if amount > 0]
        if len(there) == 1:
            fits.setdefault(key(there[0], row), AloneFit()).add(amounts(row)[there[0]], row.number("latency_ms"))
    return fits


def mixture(number, row, fits):
    there = {part: amount for part, amount in enumerate(amounts(row)) if amount > 0}
    words = ", ".join(PARTS[part] for part in there)
    run = Run(f"{number + 1}: {words}, groups of {row.count('intra_group')}")
    if not there:
        run.reason = "nothing ran"
    if number % 2 == 0:
        run.reason = "a row to which rates and slowdowns were fitted"
    if run.reason:
        return run
    alone = [""] * len(PARTS)
    for part, amount in there.items():
        if key(part, row) not in fits:
            run.reason = f"no row has a {PARTS[part]} alone"
            return run
        overhead, each = fits[key(part, row)].line()
        alone[part] = seconds((overhead + each * amount) * 1e-3)
    run.product_alone, run.collective_alone, run.to_device_alone, run.to_host_alone = alone
    run.time = seconds(row.number("latency_ms") * 1e-3)
    run.group = [words, f"groups of {row.count('intra_group')}"]
    return run


def runs_of(rows):
    for row in rows:
        if row.number("latency_ms") == 0:
            row.refuse('column "latency_ms": found nothing, allowed: a number above 0')
    fits = fits_of(rows)
    return [mixture(number, row, fits) for number, row in enumerate(rows)]


if __name__ == "__main__":
    main(__doc__, ("gpu", "intra_group", "gemm_n", "gemm_m", "gemm_k", "g2g_MB", "c2g_MB", "g2c_MB", "latency_ms"), runs_of,
         "mixture")
