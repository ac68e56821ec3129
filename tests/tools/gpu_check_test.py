"""Tests of tools/gpu_check.py with programs that only print what those of GPUs would."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools")

PIPESIM = """#!/bin/sh
case "$*" in
  "devices --json") echo '{"gpus": [{"name": "a GPU"}]}' ;;
  *--check*levels:4*|*levels:4*--check*) echo 'pipesim: out of memory' >&2; exit 3 ;;
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
        return subprocess.Popen([sys.executable, "-B", TOOLS + "/gpu_check.py", "-o", self.folder + "/report.txt", *words],
                                env={**os.environ, "PIPESIM_BUILD": self.folder}, stderr=subprocess.PIPE, text=True)

    def check(self, *words):
        """(exit status, what it says, the report)"""
        said = (process := self.start(*words)).communicate()[1]
        return process.returncode, said, self.read("report.txt")

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

    def test_tells_plans_that_failed_from_those_that_are_equal(self):
        status, _, report = self.check("--only", "plans")
        self.assertEqual(status, 1)
        self.assertIn("lenet on levels:2@400GB/s: loss differs by 1e-06, rounding alone 1e-06: equal\n", report)
        self.assertIn("lenet on levels:4@1GB/s --emulate-links: FAILED: ended with status 3 pipesim: out of memory\n", report)
        self.assertRegex(report, r"baselines .*\| all +\| 12 of 17 +\| MISSED")

    def test_ends_programs_whose_time_is_up(self):
        self.program("gpu_test", GPU_TEST.replace("*Adds)", "*Adds) sleep 100 ;;\n    *Sums)"))
        status, said, report = self.check("--only", "tests", "plans", "--within", "3")
        self.assertEqual(status, 1)
        self.assertIn("pipesim: failed: tests, plans\n", said)
        self.assertIn("## tests: FAILED: ", report)

    def test_writes_the_report_when_interrupted(self):
        self.program("gpu_test", "#!/bin/sh\necho begun >begun\nsleep 100\n")
        process = self.start("--only", "tests")
        while "(up to" not in process.stderr.readline():
            pass
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        process.communicate()
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)
        self.assertIn("## tests: interrupted", self.read("report.txt"))

    def test_refuses_parts_that_it_does_not_know(self):
        process = self.start("--only", "test")
        self.assertIn('--only: unknown part "test"; known are tests, ', process.communicate()[1])
        self.assertEqual(process.returncode, 2)


if __name__ == "__main__":
    unittest.main()
