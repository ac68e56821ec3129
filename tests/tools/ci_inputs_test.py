"""What .ci/run need not look at again: inputs.py in a small repository of its own."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / ".ci" / "inputs.py"
UNIT = "build/ci/CMakeFiles/pipesim_sim.dir/Unity/unity_0_cxx.cxx"


class Inputs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        subprocess.run(["git", "init", "-q"], cwd=self.root, check=True)
        (self.root / ".ci").mkdir()
        shutil.copy(SCRIPT, self.root / ".ci")
        for name, text in {
                ".clang-tidy": "Checks: all\n", "CMakeLists.txt": "project(p)\n", "CMakePresets.json": "{}\n", ".gitignore": "build/\n",
                "sim/a.cc": '#include "sim/a.h"\n', "sim/a.h": '#pragma once\n#include <vector>\n#include "sim/deep/b.h"\n',
                "sim/deep/b.h": "#pragma once\n", "sim/deep/b.cc": '#include "sim/deep/b.h"\n', "sim/other.h": "#pragma once\n",
                "executor/cuda/x.cu": '#include "sim/deep/b.h"\n', "executor/gpu/machine/library_steps.cc": "",
                "tools/interop/settings/toml_settings.h": '#include "sim/a.h"\n', "tools/interop/settings/toml_settings.cc": "int a;\n",
                "tests/fuzz/inputs/toml/seed": "a = 1\n", "tests/fuzz/parsers.cc": "", "tests/fuzz/target.cc": "",
                "web/report/main.js": "1\n", "tools/analysis/plans/page.cc": "", UNIT: f'#include "{self.root}/sim/a.cc"\n'}.items():
            self.write(name, text)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_it(self, *words):
        return subprocess.run([sys.executable, "-B", str(self.root / ".ci" / "inputs.py"), *words], cwd=self.root,
                              capture_output=True, text=True, check=False)

    def changed(self, step, *names):
        outcome = self.run_it("changed", step, *names)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        return outcome.stdout.split()

    def passes(self, step, *names):
        self.assertEqual(self.run_it("passed", step, *names).returncode, 0)
        self.assertEqual(self.changed(step, *names), [])

    def test_a_unit_changes_with_all_that_it_includes(self):
        self.assertEqual(self.changed("lint", UNIT), [UNIT])
        self.passes("lint", UNIT)
        for name, text in {"sim/deep/b.h": "int b;\n", "sim/a.cc": '#include "sim/a.h"\nint c;\n', ".clang-tidy": "Checks: none\n"}.items():
            self.write(name, text)
            self.assertEqual(self.changed("lint", UNIT), [UNIT], name)
            self.passes("lint", UNIT)
        self.write("sim/other.h", "int other;\n")
        self.write("sim/deep/b.cc", "int in_another_unit;\n")
        self.assertEqual(self.changed("lint", UNIT), [])

    def test_a_unit_changes_with_the_sources_that_it_has(self):
        self.passes("lint", UNIT)
        self.write("sim/new.cc", "")
        self.write(UNIT, f'#include "{self.root}/sim/a.cc"\n#include "{self.root}/sim/new.cc"\n')
        self.assertEqual(self.changed("lint", UNIT), [UNIT])

    def test_a_reader_changes_with_what_is_linked(self):
        self.passes("fuzz", "toml")
        for name, text in {"sim/deep/b.cc": "int linked;\n", "tools/interop/settings/toml_settings.cc": "int b;\n",
                           "tests/fuzz/inputs/toml/crash-1": "a =\n", "tests/fuzz/toml.dict": '"a"\n', "tests/fuzz/target.cc": "//\n"}.items():
            self.write(name, text)
            self.assertEqual(self.changed("fuzz", "toml"), ["toml"], name)
            self.passes("fuzz", "toml")

    def test_cuda_and_the_page_have_theirs(self):
        self.passes("cuda", "all")
        self.passes("page", "all")
        self.write("sim/deep/b.h", "int for_kernels;\n")
        self.assertEqual(self.changed("cuda", "all"), ["all"])
        self.assertEqual(self.changed("page", "all"), [])
        self.write("web/report/new.js", "2\n")
        self.assertEqual(self.changed("page", "all"), ["all"])

    def test_what_passed_is_kept_beside_the_rest(self):
        self.passes("cuda", "all")
        self.passes("page", "all")
        lines = (self.root / ".ci" / "passed").read_text().splitlines()
        self.assertEqual([line.rsplit(" ", 1)[0] for line in lines[1:]], ["cuda all", "page all"])

    def test_refuses_what_it_does_not_know(self):
        for words in (["changed"], ["changed", "lint"], ["lost", "lint", "x"], ["changed", "page_of", "all"], ["changed", "fuzz", "unknown"],
                      ["changed", "fuzz", "yaml"]):
            outcome = self.run_it(*words)
            self.assertNotEqual(outcome.returncode, 0, words)
            self.assertNotIn("Traceback", outcome.stderr)

    def test_every_reader_of_the_repository_is_known(self):
        readers = sorted(path.name for path in (SCRIPT.parents[1] / "tests" / "fuzz" / "inputs").iterdir())
        outcome = subprocess.run([sys.executable, "-B", str(SCRIPT), "changed", "fuzz", *readers], capture_output=True, text=True, check=False)
        self.assertEqual(outcome.stderr, "")


if __name__ == "__main__":
    unittest.main()
