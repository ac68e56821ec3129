#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/tools/interop/framework_case.h"
#include "tools/interop/megatron/megatron.h"
#include "tools/interop/megatron/megatron_arguments.h"
#include "tools/interop/megatron/megatron_files.h"
#include "tools/interop/megatron/megatron_run.h"

namespace pipesim {

inline const std::string kMegatronFile = "run.sh";

inline std::string content_named(const std::vector<ExportedFile>& files, const std::string& name) {
  for (const ExportedFile& file : files) {
    if (file.name == name) return file.content;
  }
  ADD_FAILURE() << "no file " << name;
  return "";
}

inline FrameworkRun run_of_text(const std::string& text, std::int64_t devices) {
  return megatron_run(MegatronFile::parse(text, kMegatronFile), devices);
}

inline std::string arguments_text(const std::string& model, const std::string& recipe,
                                  std::string_view version = "main") {
  const FrameworkPlan plan = with_version(
      framework_plan(model, parse_recipe(recipe), make_topology("dgx-h100:1")), "megatron", version);
  EXPECT_TRUE(framework_named("megatron").refusals(plan).empty()) << model;
  return content_named(megatron_files(plan), "megatron.args");
}

// Sizes of a small model.
inline const std::string kUsualArguments =
    "--num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --micro-batch-size 1 "
    "--vocab-size 512 --overlap-grad-reduce ";

// What stands between two arguments, the first with it.
inline std::string between(const std::string& text, const std::string& first, const std::string& next) {
  const std::size_t from = text.find(first + " "), to = text.find("\n" + next);
  if (from == std::string::npos || to == std::string::npos) return text;
  return text.substr(from, to - from);
}

}  // namespace pipesim
