"""Tests of tools/scripts/gpu_check.py with programs that only print what those of GPUs would."""

import contextlib
import functools
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest
from unittest import mock

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools")
SCRIPTS = TOOLS + "/scripts"
sys.path.insert(0, SCRIPTS)

import gpu_check  # pylint: disable=wrong-import-position
import gpu_parts  # pylint: disable=wrong-import-position

PIPESIM = """#!/bin/sh
case "$*" in
  "devices --json") echo '{"gpus": [{"name": "a GPU"}]}' ;;
  *--check*levels:4*|*levels:4*--check*) echo 'pipesim: out of memory' >&2; exit 3 ;;
  import*) for last; do :; done; echo '{"nodes": {"devices": {"kind": "a GPU"}}}' >"$last" ;;
  topologies*here.json*--expanded) echo '{"device_kinds": {"a GPU": {}}}' ;;
  calibrate*resnet*) echo 'pipesim: out of memory' >&2; exit 3 ;;
  calibrate*) for last; do :; done; echo new >>"$last"; echo '1 plan' ;;
  *--check*) echo '{"check": [{"worst": "loss", "error": 1e-6, "rounding": 1e-6, "equal": true}]}' ;;
esac
"""

# The third test crashes its process, the fourth fails.
GPU_TEST = """#!/bin/sh
case "$*" in *list_tests*) printf 'Kernel.\\n  Adds\\n  Errs\\n  Crashes\\nZoo/EqualZoo.\\n  Holds/mlp  # GetParam() = 1\\n'; exit ;; esac
status=0
for name in $(echo "$GTEST_FILTER" | tr : ' '); do
  echo "[ RUN      ] $name"
  case $name in
    *Adds) echo 'largest error of float32: 2e-3 (sum)'; echo "[       OK ] $name (1 ms)" ;;
    *Errs) echo 'x.cc:7: Failure'; echo "[  FAILED  ] $name, where GetParam() = 1 (1 ms)"; status=1 ;;
    *Crashes) kill -SEGV $$ ;;
    *) echo "[       OK ] $name (1 ms)" ;;
  esac
done
exit $status
"""


class GpuCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.program("pipesim", PIPESIM)
        self.program("gpu_test", GPU_TEST)

    def program(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def start(self, *words):
        return subprocess.Popen([sys.executable, "-B", SCRIPTS + "/gpu_check.py", "-o", self.folder + "/report.txt", *words],
                                env={**os.environ, "PIPESIM_BUILD": self.folder}, stderr=subprocess.PIPE, text=True)

    def check(self, *words):
        """(exit status, what it says, the report)"""
        said = (process := self.start(*words)).communicate()[1]
        return process.returncode, said, self.read("report.txt")

    def check_here(self, *parts, seconds=1000):
        """As check(), but with these parts, in this process, and with `seconds` from the time when all is prepared."""
        said = io.StringIO()
        with mock.patch.object(gpu_check, "with_libraries", return_value=(dict(os.environ), [])), \
                contextlib.redirect_stderr(said):
            checked = gpu_check.Check(self.folder, self.folder + "/report.txt", self.folder, 0)
            self.addCleanup(checked.runner.log_file.close)
            status = gpu_check.check_gpu(checked, parts, time.monotonic() + seconds)
        return status, said.getvalue(), self.read("report.txt")

    def read(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return file.read()

    def test_says_why_there_is_no_gpu(self):
        self.program("pipesim", "#!/bin/sh\necho '{\"gpus\": [], \"no_gpus\": \"no driver\"}'\n")
        status, said, report = self.check()
        self.assertEqual(status, 3)
        self.assertIn("there is no GPU to check: no driver\n", said)
        self.assertIn("**There is no GPU to check: no driver**", report)

    def test_names_tests_that_fail_and_goes_on_after_those_that_crash(self):
        status, said, report = self.check("--only", "tests")
        self.assertEqual(status, 1)
        self.assertIn("pipesim: failed: tests\n", said)
        self.assertIn(": 2 passed, 2 failed, 0 skipped, 0 not run\n", report)
        self.assertIn("FAILED Kernel.Errs (fails alone, too): x.cc:7: Failure\n", report)
        self.assertIn("FAILED Kernel.Crashes (fails alone, too): crashes: was ended by SIGSEGV\n", report)
        self.assertRegex(report, r"float32 +\| at most 0.0001 \| 0.002 +\| MISSED")
        self.assertRegex(report, r"whole models .*\| all +\| 1 of 1 +\| reached")
        self.assertIn("[ RUN      ] Kernel.Crashes", self.read("report.log"))

    def test_whole_models_that_no_kernel_computes_are_not_missed(self):
        self.program("gpu_test", """#!/bin/sh
case "$*" in *list_tests*) printf 'Zoo/EqualZoo.\\n  Holds/mlp\\n  Holds/bert\\n  Holds/lenet\\n'; exit ;; esac
for name in $(echo "$GTEST_FILTER" | tr : ' '); do
  echo "[ RUN      ] $name"
  case $name in *bert) echo "[  SKIPPED ] $name (1 ms)" ;; *) echo "[       OK ] $name (1 ms)" ;; esac
done
""")
        status, _, report = self.check("--only", "tests")
        self.assertEqual(status, 0)
        self.assertRegex(report, r"whole models .*\| all +\| 2 of 2, 1 skipped +\| reached")
        self.assertEqual(gpu_parts.missed_goals({"whole models": (0, 0, 3)}),
                         ["whole models under random plans equal the unsplit one"])

    def test_predicts_steps_that_are_held(self):
        self.program("pipesim", PIPESIM.replace("  calibrate*)", """
  calibrate*gpt*) echo '  3 of 90 steps began after 100 ms, before the host had' ;;
  *compare*--held*) echo '{"plans": [{"name": "single", "predicted_s": 1, "measured_s": {"median": 1}, "error": 0.04},
                              {"name": "split", "predicted_s": 2, "measured_s": {"median": 2}, "error": -0.02}],
                              "spearman": 1, "clear_pairs": 1, "wrong_clear_pairs": 0}' ;;
  calibrate*)""", 1))
        status, _, report = self.check("--only", "predictions")
        self.assertEqual(status, 4)  # two plans of each case are too few
        self.assertEqual(report.count("clear pairs in the wrong order, Spearman 1\n"), 4)
        self.assertEqual(report.count("calibration: 3 of 90 steps began after 100 ms"), 2)
        self.assertRegex(report, r"plans predicted +\| at least 40 +\| 8 +\| MISSED")
        self.assertRegex(report, r"median error of predictions +\| at most 5 % +\| 2.0 % +\| reached")
        self.assertNotIn("FAILED", report)

    def test_all_parts_fit_into_the_time_for_everything(self):
        self.assertLessEqual(sum(part.seconds for part in gpu_parts.PARTS), gpu_check.arguments_of([]).within)

    def test_tells_plans_that_failed_from_those_that_are_equal(self):
        status, _, report = self.check("--only", "plans")
        self.assertEqual(status, 1)
        self.assertIn("lenet on levels:2@400GB/s: loss differs by 1e-06, rounding alone 1e-06: equal\n", report)
        self.assertIn("lenet on levels:4@1GB/s --emulate-links: FAILED: ended with status 3 pipesim: out of memory\n", report)
        self.assertRegex(report, r"baselines .*\| all +\| 12 of 17 +\| MISSED")

    def test_ends_programs_whose_time_is_up_and_goes_on(self):
        self.program("sleeps", "#!/bin/sh\necho $$ >pid\nsleep 1000\n")
        status, said, report = self.check_here(
            gpu_parts.Part("sleeps", 1, "", lambda check: gpu_parts.require(check.run([self.folder + "/sleeps"]))),
            gpu_parts.Part("says", 499, "", lambda check: ["said"]))
        self.assertEqual(status, 1)
        self.assertIn("pipesim: failed: sleeps\n", said)
        self.assertIn("sleeps ran out of time, ", report)
        self.assertIn("## says: passed, ", report)
        if os.path.exists(self.folder + "/pid"):  # a machine that is too busy may not have come so far
            self.assertRaises(ProcessLookupError, os.kill, int(self.read("pid")), 0)

    def test_devices_that_do_not_answer_are_not_missing(self):
        self.program("pipesim", "#!/bin/sh\ncase $1 in devices) sleep 1000 ;; esac\n")
        status, said, report = self.check("--within", "0.5")
        self.assertEqual(status, 1)
        self.assertIn("which GPUs there are is not known: ", said)
        self.assertIn("pipesim devices ran out of time without its figures**", report)

    def test_a_part_whose_output_is_garbled_does_not_stop_the_others(self):
        self.program("gpu_test", GPU_TEST.replace("2e-3 (sum)", "2e- (sum)"))
        status, said, report = self.check("--only", "tests", "plans")
        self.assertEqual(status, 1)
        self.assertIn("pipesim: failed: tests, plans\n", said)
        self.assertIn("## tests: FAILED: ValueError: could not convert string to float: '2e-'", report)
        self.assertRegex(report, r"baselines .*\| all +\| 12 of 17 +\| MISSED")

    def test_a_full_disk_does_not_stop_it(self):
        log = mock.Mock(**{"write.side_effect": OSError(28, "no space left")})

        def part(check):
            check.runner.log_file = log
            return check.run_all([functools.partial(check.run, ["true"])] * 2, 2) and ["two"]

        rename, troubles = os.replace, [None, OSError(28, "no space left"), None]

        def replace(source, target):
            if trouble := troubles.pop(0):
                raise trouble
            rename(source, target)

        with mock.patch.object(os, "replace", replace):
            status, said, report = self.check_here(gpu_parts.Part("runs", 1, "", part),
                                                   gpu_parts.Part("says", 1, "", lambda check: []))
        self.assertEqual(status, 0)
        self.assertIn("pipesim: can't write the report: ", said)
        self.assertIn("pipesim: runs passed\n", said)
        self.assertIn("## runs: passed, ", report)
        self.assertIn("## says: passed, ", report)

    def test_tests_of_which_none_is_listed_do_not_pass(self):
        self.program("gpu_test", "#!/bin/sh\n")
        status, _, report = self.check_here(*(part for part in gpu_parts.PARTS if part.name == "tests"))
        self.assertEqual(status, 1)
        self.assertIn("## tests: FAILED: gpu_test lists no tests, ", report)

    def sanitized(self, *outcomes):
        """(why it failed, its figures) where programs ended so: (status, output)."""
        ended = [gpu_check.Outcome(["gpu_test"], status, out, "") for status, out in outcomes]
        check = types.SimpleNamespace(build="", figures={}, at_once=lambda most: most, run_all=lambda jobs, at_once: ended)
        with mock.patch.object(shutil, "which", return_value="x"), mock.patch.object(gpu_parts, "SANITIZED", "ab"):
            try:
                gpu_parts.sanitized("memcheck", check)
                return "", check.figures
            except gpu_parts.PartFailed as failure:
                return str(failure), check.figures

    def test_kernels_that_were_not_run_are_not_clean(self):
        passed = (0, "[       OK ] K.Adds (1 ms)\n")
        self.assertEqual(self.sanitized(passed, passed), ("", {"memcheck": (0, 2, 0)}))
        self.assertEqual(gpu_parts.missed_goals({"memcheck": (0, 2, 0)}), [])
        self.assertIn("1 of 2 runs went wrong", self.sanitized(passed, (0, "[==========] Running 0 tests.\n"))[0])
        self.assertIn("1 of 2 runs went wrong", self.sanitized(passed, (1, ""))[0])
        self.assertEqual(self.sanitized(passed, (None, "")), ("", {"memcheck": (0, 1, 1)}))
        self.assertEqual(gpu_parts.missed_goals({"memcheck": (0, 1, 1)}), ["memcheck"])
        self.assertIn("0 tests ended", self.sanitized((None, ""), (None, ""))[0])

    def test_keeps_an_earlier_calibration_until_there_is_another(self):
        part = next(part for part in gpu_parts.PARTS if part.name == "calibration")
        self.program("report.db", "old")
        with mock.patch.object(gpu_parts, "CALIBRATED", ["alexnet", "resnet50"]):
            self.assertEqual(self.check_here(part)[0], 1)
        self.assertEqual((self.read("report.db"), self.read("report.db.part")), ("old", "new\n"))
        with mock.patch.object(gpu_parts, "CALIBRATED", ["alexnet", "vgg16"]):
            self.assertEqual(self.check_here(part)[0], 0)
        self.assertEqual(self.read("report.db"), "new\nnew\n")
        self.assertFalse(os.path.exists(self.folder + "/report.db.part"))

    def test_writes_the_report_when_interrupted(self):
        self.program("gpu_test", "#!/bin/sh\necho begun >\"${0%/*}/begun\"\nsleep 1000\n")
        process = self.start("--only", "tests")
        while process.poll() is None and not os.path.exists(self.folder + "/begun"):
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        process.communicate()
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)
        self.assertIn("## tests: interrupted", self.read("report.txt"))

    def test_refuses_reports_named_as_the_files_beside_them(self):
        for name in ("x.log", "x.db"):
            process = self.start("-o", name)
            self.assertIn(f'"{name}" can\'t be the report', process.communicate()[1])
            self.assertEqual(process.returncode, 2)

    def test_builds_also_for_a_program_that_is_asked_for_help(self):
        shutil.copy(TOOLS + "/gpu-check", self.folder)
        os.mkdir(self.folder + "/scripts")
        self.program("scripts/setup.sh", "root=/root\nbuild_preset() { echo \"builds $*\"; }\n")
        self.program("scripts/gpu_check.py", "import os, sys\nprint([os.environ['PIPESIM_BUILD'], *sys.argv[1:]])\n")
        environment = {name: value for name, value in os.environ.items() if name != "PIPESIM_BUILD"}
        for words, builds in ((["--run", "pipesim", "--help"], True), (["--list"], False), (["-h"], False)):
            said = subprocess.run([self.folder + "/gpu-check", *words], env=environment, check=True, capture_output=True,
                                  text=True).stdout
            self.assertEqual("builds release pipesim pipesim-execution gpu_test gpu_bench -- cuda\n" in said, builds)
            self.assertIn(str(["/root/build/release" if builds else "", *words]), said)

    def test_refuses_parts_that_it_does_not_know(self):
        process = self.start("--only", "test")
        self.assertIn('--only: unknown part "test"; known are tests, ', process.communicate()[1])
        self.assertEqual(process.returncode, 2)


if __name__ == "__main__":
    unittest.main()
