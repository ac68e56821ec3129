"""Runs the parts of tools/gpu-check (gpu_parts.py), each within its share of the time, and writes the report.

Whatever happens to a part, the others run and the report says so: it is written again after each of them.
"""

import argparse
import concurrent.futures
import datetime
import glob
import gzip
import math
import os
import platform
import shutil
import signal
import site
import subprocess
import sys
import tempfile
import threading
import time

import gpu_parts
from gpu_parts import LeftOut, PartFailed

NVIDIA_LIBRARIES = ("libcublasLt.so.13", "libcudnn.so.9", "libnccl.so.2", "libcupti.so.13")
LAUNCHERS_VARIABLES = ("SLURM_", "OMPI_", "PMI", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_")
DRIVER_FOLDERS = ("/usr/local/nvidia/lib64", "/usr/lib/wsl/lib", "/usr/lib64/nvidia")  # of containers that don't tell the loader
KEPT_OUTPUT = 4 << 20  # bytes of one process in the log


class Interrupted(Exception):
    """A signal came; its number."""


class Outcome:
    """How a process ended: `status` is that of its exit, minus the signal that killed it, or None when its time was up or
    it hung, that is, printed nothing for too long."""

    def __init__(self, command, status, out, err, hung=False):
        self.command, self.status, self.out, self.err, self.hung = command, status, out, err, hung

    @property
    def ok(self):
        return self.status == 0

    def ending(self):
        if self.status is None:
            return "hung" if self.hung else "ran out of time"
        if self.status < 0:
            return f"was ended by {signal.Signals(-self.status).name}"
        return f"ended with status {self.status}"

    def last_lines(self, count=15):
        return (self.out.rstrip() + "\n" + self.err.rstrip()).strip().splitlines()[-count:]


class Runner:
    """Starts processes, none of which outlives its deadline, and keeps all that they print in one log."""

    def __init__(self, environment, scratch, log_path):
        self.environment, self.scratch = environment, scratch
        self.log_file = open(log_path, "w", encoding="utf-8", errors="replace")
        self.alive, self.lock, self.stopped = set(), threading.Lock(), False
        self.log_trouble = ""

    def log(self, text):
        """What the disk has no room for is lost, and log_trouble says why."""
        with self.lock:
            try:
                self.log_file.write(text + "\n")
                self.log_file.flush()
            except OSError as error:
                self.log_trouble = str(error)

    def run(self, command, deadline, extra=None, environment=None, quiet=math.inf):
        """`extra`: variables beside the environment's. A program that is missing ends with status 127. One that prints nothing
        for `quiet` seconds hangs."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            began = time.monotonic()
            try:
                with self.lock:
                    if self.stopped:
                        raise Interrupted(signal.SIGTERM)
                    process = subprocess.Popen(
                        command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=self.scratch,
                        env={**(environment or self.environment), **(extra or {})}, start_new_session=True)
                    self.alive.add(process)
            except OSError as error:
                self.log(f"$ {' '.join(command)}\n{error}")
                return Outcome(command, 127, "", str(error))
            hung = False
            try:
                status, hung = wait_for(process, deadline, out, quiet)
            finally:
                end_process(process)
                self.alive.discard(process)
                texts = []
                for file in (out, err):
                    file.seek(0)
                    texts.append(file.read().decode(errors="replace"))
                self.log(f"$ {' '.join(command)}" + "".join("\n" + t[-KEPT_OUTPUT:].rstrip() for t in texts if t.strip()))
            outcome = Outcome(command, status, *texts, hung)
            self.log(f"[{outcome.ending()} after {time.monotonic() - began:.1f} s]\n")
            return outcome

    def run_all(self, jobs, at_once):
        """What functions without arguments return, several running at a time. What one raises is raised when all have ended."""
        with concurrent.futures.ThreadPoolExecutor(max(1, at_once)) as pool:
            futures = [pool.submit(job) for job in jobs]
            try:
                concurrent.futures.wait(futures)
            except (Interrupted, KeyboardInterrupt):
                self.stop()
                pool.shutdown(cancel_futures=True)
                raise
            return [future.result() for future in futures]

    def stop(self):
        self.stopped = True
        for process in list(self.alive):
            end_process(process)


def wait_for(process, deadline, out, quiet):
    """(status or None, whether it hung)"""
    size, grown = 0, time.monotonic()
    while True:
        try:
            return process.wait(0.2), False
        except subprocess.TimeoutExpired:
            now, before = time.monotonic(), size
            size = os.fstat(out.fileno()).st_size
            grown = now if size != before else grown
            if now >= deadline or now - grown > quiet:
                return None, now < deadline


def end_process(process, grace=3):
    """With all that it started. One that hangs in the driver can't be waited for."""
    for number, wait in ((signal.SIGTERM, grace), (signal.SIGKILL, grace)):
        try:
            os.killpg(process.pid, number)
        except (ProcessLookupError, PermissionError):
            pass
        try:
            process.wait(wait)
        except subprocess.TimeoutExpired:
            continue
        if number == signal.SIGTERM and not group_lives(process.pid):
            return


def group_lives(group):
    try:
        os.killpg(group, 0)
        return True
    except (ProcessLookupError, PermissionError):
        return False


def unpacked_libraries(folder, scratch):
    """The bundle's own libraries. Those that are compressed are unpacked anew, so that the bundle stays small to copy."""
    packed = sorted(glob.glob(folder + "/*.gz"))
    if not packed:
        return [folder]
    target = folder if os.statvfs(scratch).f_flag & os.ST_NOEXEC else scratch
    for path in packed:
        name = f"{target}/{os.path.basename(path)[:-3]}"
        with gzip.open(path) as source, open(name, "wb") as copy:
            shutil.copyfileobj(source, copy)
        os.chmod(name, 0o755)
    return list(dict.fromkeys([folder, target]))


def loads(library, environment):
    """Why the library can't be loaded, or ""."""
    code = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    try:
        done = subprocess.run([sys.executable, "-c", code, library], env=environment, capture_output=True, text=True,
                              check=False, timeout=30)
    except subprocess.TimeoutExpired:
        return "it takes more than 30 s"
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it crashes"])[-1]


def missing_libraries(environment):
    return {name: why for name in NVIDIA_LIBRARIES if (why := loads(name, environment))}


def nvidia_folders():
    """Where NVIDIA's libraries may be beside the loader's own folders: PyTorch's packages first, then the CUDA Toolkit."""
    packages = []
    for place in dict.fromkeys(site.getsitepackages() + [site.getusersitepackages()] + sys.path):
        packages += sorted(glob.glob(place + "/nvidia/*/lib"))
    toolkit = []
    for place in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if place:
            toolkit += [f"{place}/{name}" for name in ("lib64", "lib", "extras/CUPTI/lib64")]
    return list(dict.fromkeys(packages)), [f for f in dict.fromkeys(toolkit) if os.path.isdir(f)]


def with_libraries(build, scratch):
    """The environment in which the programs of `build` find their libraries, and lines that say where those are."""
    # One process of its own is what every program here is, whatever started gpu-check.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS_VARIABLES)}
    lines = []

    def add(folders):
        known = environment.get("LD_LIBRARY_PATH")
        environment["LD_LIBRARY_PATH"] = ":".join(folders + ([known] if known else []))

    if os.path.isdir(build + "/lib"):
        add(unpacked_libraries(build + "/lib", scratch))
    if not first_line([build + "/pipesim", "--version"], environment) and os.path.isdir(build + "/compiler-lib"):
        add([build + "/compiler-lib"])
        lines.append("the compiler's libraries: the bundle's, because those here are older or missing")
    packages, toolkit = nvidia_folders()
    missing = missing_libraries(environment)
    for folders in (packages, toolkit):
        if any(os.path.exists(f"{f}/{name}") for f in folders for name in missing):
            add(folders)
            missing = missing_libraries(environment)
            lines += ["NVIDIA's libraries: " + f for f in folders]
    driver = next((f for f in DRIVER_FOLDERS if os.path.exists(f + "/libcuda.so.1")), None)
    if driver and loads("libcuda.so.1", environment):
        add([driver])
        lines.append("the driver's libraries: " + driver)
    if not missing and not any(line.startswith("NVIDIA") for line in lines):
        lines.append("NVIDIA's libraries: where the loader finds them")
    lines += [f"{name} can't be loaded: {why}" for name, why in missing.items()]
    if why := loads(build + "/libpipesim_cuda.so", environment):
        lines.append("libpipesim_cuda.so can't be loaded: " + why)
    return environment, lines


def first_line(command, environment=None):
    """Of what it prints; "" when it fails."""
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=30)
        return (done.stdout.strip().splitlines() or [""])[0] if done.returncode == 0 else ""
    except (OSError, subprocess.TimeoutExpired):
        return ""


def commit_of(build):
    here = os.path.dirname(os.path.abspath(__file__))
    for folder in (build, here):
        if os.path.exists(folder + "/bundle.txt"):
            with open(folder + "/bundle.txt", encoding="utf-8") as file:
                return file.read().strip() + " (bundle)"
    return first_line(["git", "-C", here, "describe", "--always", "--dirty"]) or "no commit"


def machine_lines():
    system = next((line.split("=", 1)[1].strip().strip('"') for line in open("/etc/os-release", encoding="utf-8")
                   if line.startswith("PRETTY_NAME=")), "") if os.path.exists("/etc/os-release") else ""
    fields = ("name,driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.limit,temperature.gpu,compute_mode,"
              "mig.mode.current,utilization.gpu,memory.used")
    lines = [f"{system}, Linux {platform.release()}, {' '.join(platform.libc_ver())}, {os.cpu_count()} cores",
             f"python3 {platform.python_version()} ({sys.executable})"]
    for name, command in (("nvcc", ["nvcc", "--version"]), ("compute-sanitizer", ["compute-sanitizer", "--version"])):
        found = shutil.which(name)
        lines.append(f"{name}: " + (f"{found} ({first_line(command)})" if found else "not installed"))
    found = first_line(["nvidia-smi", "--query-gpu=" + fields, "--format=csv,noheader"])
    lines += [f"nvidia-smi: {name} {value.strip()}" for name, value in zip(fields.split(","), found.split(","))
              ] if found else ["nvidia-smi: no answer"]
    return lines


class Check:
    """What parts are given: processes, the programs, a folder for their files, and figures that the goals ask for."""

    def __init__(self, build, report, scratch, deadline):
        self.build, self.scratch, self.deadline = build, scratch, deadline
        self.report_path = report
        self.beside = os.path.splitext(report)[0]
        self.program = build + "/pipesim"
        self.reference = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpu_reference.py")
        self.cores = len(os.sched_getaffinity(0))
        self.figures, self.results = {}, []
        environment, self.library_lines = with_libraries(build, scratch)
        self.runner = Runner(environment, scratch, self.beside + ".log")
        self.top = [f"# GPU check of {datetime.datetime.now(datetime.timezone.utc):%F %T} UTC, {commit_of(build)}", ""]

    def run(self, command, extra=None, reserve=0, quiet=math.inf):
        """As Runner's, until `reserve` seconds before the part's time is up."""
        return self.runner.run(command, self.deadline - reserve, extra, quiet=quiet)

    def run_python(self, command):
        """In python3's own surroundings, in which it finds its libraries by itself."""
        return self.runner.run([sys.executable, *command], self.deadline, environment=dict(os.environ))

    def run_all(self, jobs, at_once):
        return self.runner.run_all(jobs, at_once)

    def at_once(self, most):
        """How many processes may share the GPU and the cores."""
        if any("compute_mode Exclusive" in line for line in self.top):
            return 1
        return max(1, min(most, self.cores // 2))

    def left(self):
        return self.deadline - time.monotonic()

    def write_report(self):
        """Whether it could be written; if not, stderr says why."""
        lines = list(self.top)
        for name, verdict, seconds, text in self.results:
            lines += [f"## {name}: {verdict}, {seconds:.0f} s", "", *text, ""]
        lines += ["## figures and goals", "", *gpu_parts.goals_table(self.figures), ""]
        try:
            with open(self.report_path + ".part", "w", encoding="utf-8", errors="replace") as file:
                file.write("\n".join(lines))
            os.replace(self.report_path + ".part", self.report_path)
        except OSError as error:
            print(f"pipesim: can't write the report: {error}", file=sys.stderr)
            return False
        return True


def run_part(check, part):
    """Runs it; what it raises becomes its verdict, but for interruptions."""
    began, text = time.monotonic(), []
    verdict = "interrupted"
    check.runner.log(f"==== {part.name}")
    try:
        if check.left() < 1:
            raise PartFailed("no time is left")
        text = part.run(check)
        verdict = "passed"
    except LeftOut as reason:
        verdict = f"left out: {reason}"
    except PartFailed as failure:
        verdict, text = f"FAILED: {failure}", failure.lines
    except Interrupted:
        raise
    except Exception as error:  # pylint: disable=broad-except  # output that is not as expected must not end the others
        verdict = f"FAILED: {type(error).__name__}: {error}"
    finally:
        check.results.append((part.name, verdict, time.monotonic() - began, text))
        check.write_report()
    return verdict


def arguments_of(words):
    parser = argparse.ArgumentParser(
        prog="gpu-check", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Runs all that needs a GPU, in under 8 minutes, and writes one report, with all output in a .log beside it.",
        epilog="gpu-check --bundle FOLDER builds what a machine without pipesim's packages needs; PIPESIM_BUILD=FOLDER uses "
        "it there.\nExit status: 0 all is well, 1 a part, pipesim devices or writing the report failed, 2 wrong command line, "
        "3 no GPU, 4 a goal is missed, 128 + N ended by signal N.")
    parser.add_argument("report", nargs="?", help="the report's file (gpu-check.txt)")
    parser.add_argument("-o", "--output", metavar="REPORT", help="the same")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="run these parts, which then have all the time")
    parser.add_argument("--list", action="store_true", help="list the parts")
    parser.add_argument("--within", type=float, default=460, metavar="SECONDS", help="for everything (460)")
    parser.add_argument("--run", nargs=argparse.REMAINDER, metavar="WORD",
                        help="run a program of the build instead, as in --run pipesim devices")
    a = parser.parse_args(words)
    names = [part.name for part in gpu_parts.PARTS]
    for name in a.only or []:
        if name not in names:
            parser.error(f"--only: unknown part \"{name}\"; known are {', '.join(names)}")
    if a.report and a.output:
        parser.error("the report is named twice")
    report = a.output or a.report or ""
    if report.endswith((".log", ".db")):
        parser.error(f"\"{report}\" can't be the report: files beside it, of all output and of the calibration, are named so")
    if a.run is not None and not a.run:
        parser.error("--run needs a program: pipesim, gpu_test or gpu_bench")
    if a.within <= 0:
        parser.error("--within: found a time that is not above 0")
    return a


def run_parts(check, parts, end):
    """Each until its share of the time is over; what one leaves is the next one's."""
    shares = sum(part.seconds for part in parts)
    scale = (end - time.monotonic()) / shares
    failed = []
    for part in parts:
        shares -= part.seconds
        check.deadline = end - shares * scale
        print(f"pipesim: {part.name} (up to {check.left():.0f} s)", file=sys.stderr, flush=True)
        verdict = run_part(check, part)
        print(f"pipesim: {part.name} {verdict}", file=sys.stderr, flush=True)
        if verdict.startswith("FAILED"):
            failed.append(part.name)
    return failed


def check_gpu(check, parts, end):
    check.top += ["## environment", "", *machine_lines(), *check.library_lines, ""]
    check.write_report()
    check.deadline = min(end, time.monotonic() + 60)
    found = check.run([check.program, "devices"])
    check.top += [*(found.out.splitlines() or found.last_lines()), ""]
    try:
        reason = gpu_parts.read_inventory(check)
    except PartFailed as failure:
        check.top += [f"**Which GPUs there are is not known: {failure}**", *failure.lines]
        print(f"pipesim: which GPUs there are is not known: {failure}", file=sys.stderr)
        return 1
    if reason:
        check.top.append(f"**There is no GPU to check: {reason}**")
        check.write_report()
        print(f"pipesim: there is no GPU to check: {reason}", file=sys.stderr)
        return 3
    failed = run_parts(check, parts, end)
    missed = gpu_parts.missed_goals(check.figures)
    if failed:
        print("pipesim: failed: " + ", ".join(failed), file=sys.stderr)
    if missed:
        print("pipesim: not reached: " + ", ".join(missed), file=sys.stderr)
    return 1 if failed else 4 if missed else 0


def main():
    began = time.monotonic()
    a = arguments_of(sys.argv[1:])
    if a.list:
        for part in gpu_parts.PARTS:
            print(f"{part.name:12} {part.seconds:4d} s  {part.about}")
        return 0
    build = os.path.abspath(os.environ["PIPESIM_BUILD"])
    for name in ("pipesim", "gpu_test"):
        if not os.access(f"{build}/{name}", os.X_OK):
            sys.exit(f"pipesim: {build} has no program {name}")
    scratch = tempfile.mkdtemp(prefix="gpu-check-")
    try:
        if a.run:
            environment, _ = with_libraries(build, scratch)
            return subprocess.run([f"{build}/{a.run[0]}", *a.run[1:]], env=environment, check=False).returncode & 255
        report = os.path.abspath(a.output or a.report or "gpu-check.txt")
        os.makedirs(os.path.dirname(report), exist_ok=True)

        def interrupt(number, _):
            for caught in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(caught, signal.SIG_IGN)  # what follows takes seconds
            raise Interrupted(number)

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, interrupt)
        check = None
        try:
            check = Check(build, report, scratch, began + a.within)
            parts = [part for part in gpu_parts.PARTS if not a.only or part.name in a.only]
            status = check_gpu(check, parts, began + a.within)
        except Interrupted as signalled:
            status = 128 + signalled.args[0]
            print("pipesim: interrupted", file=sys.stderr)
        if check:
            check.runner.stop()
            check.top.insert(1, f"took {time.monotonic() - began:.0f} s, exit status {status}")
            if check.runner.log_trouble:
                check.top.insert(2, f"{check.beside}.log lacks lines: {check.runner.log_trouble}")
                print(f"pipesim: {check.beside}.log lacks lines: {check.runner.log_trouble}", file=sys.stderr)
            if check.write_report():
                print(f"pipesim: wrote {report}", file=sys.stderr)
            else:
                status = status or 1
        return status
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
