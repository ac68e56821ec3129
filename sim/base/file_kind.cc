#include "sim/base/file_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "sim/base/errors.h"

namespace pipesim {
namespace {

// What pipesim writes as JSON. {0} stands for the file's name.
struct FileKind {
  std::string_view key;     // that such files have and others do not, together with `also`
  std::string_view name;    // "a model"
  std::string_view use;     // where it goes
  std::string_view writer;  // what writes such a file; empty: no command needs one
  std::string_view also = {};
};

constexpr std::array kKinds{
    FileKind{kModelKey, "a model", "a model goes with --model {}",
             "\"pipesim models NAME --json\" prints a model"},
    FileKind{kTopologyKey, "a topology", "a topology goes with --topology {}",
             "\"pipesim topologies NAME --json\" prints a topology"},
    FileKind{kPlanKey, "a plan", "a plan goes with --plan {}", "\"pipesim search … -o FILE\" writes a plan"},
    FileKind{kSearchKey, "a checkpoint of a search", "\"pipesim search … --resume {}\" goes on from it",
             "\"pipesim search … --checkpoint FILE\" writes a checkpoint"},
    FileKind{kAutoSearchKey, "a checkpoint of a search with --algorithm auto",
             "\"pipesim search … --algorithm auto --resume {}\" goes on from it",
             "\"pipesim search … --algorithm auto --checkpoint FILE\" writes a checkpoint"},
    FileKind{kConstantsKey, "a file of constants", "constants go with --calibration {}",
             "\"pipesim calibrate --runs TABLE -o FILE\" fits constants to runs"},
    FileKind{kStudyKey, "a study",
             "\"pipesim report {0} -o FILE\" draws it, \"pipesim whatif --resume {0}\" goes on with it",
             "\"pipesim whatif … --vary PATH=VALUES -o FILE\" writes a study"},
    FileKind{kTraceKey, "a trace",
             "ui.perfetto.dev shows it, and \"pipesim report {0} -o FILE\" where execute wrote it", ""},
    FileKind{"best", "a result of a search, as --json prints it", "\"pipesim report {0} -o FILE\" draws it",
             "", "iteration_time_s"},
    FileKind{"predicted_s", "a result of execute, as --json prints it",
             "\"pipesim report {0} -o FILE\" draws it", "", "backend"},
    FileKind{"top1_regret", "a result of compare --execute, as --json prints it",
             "\"pipesim report {0} -o FILE\" draws it", "", "plans"},
    FileKind{"iteration_time_s", "a result of simulate, as --json prints it",
             "pipesim reads no such results: \"pipesim report\" draws the plan itself", ""}};

const FileKind& kind_of(std::string_view key) {
  const auto* found = std::ranges::find(kKinds, key, &FileKind::key);
  if (found == kKinds.end()) throw InternalError(fmt::format("no file has the key {}", key));
  return *found;
}

struct Format {
  std::string_view beginning;
  std::string_view message;
};

// ONNX and pickles have no such beginning: names of files tell them.
constexpr std::array kFormats{
    Format{"SQLite format 3",
           "this is an SQLite file, as calibrations are, not JSON; a calibration goes with --calibration {}"},
    Format{"PK\x03\x04", "this is a ZIP archive, as torch.save writes it, not JSON"},
    Format{"\x89HDF", "this is an HDF5 file, not JSON"},
    Format{kSearchLogHeader, "this is a log of a search, not JSON; \"pipesim report {} -o FILE\" draws it"},
    Format{"<!doctype html>", "this is a page for a browser, as \"pipesim report\" writes it, not JSON"},
    Format{
        "<",
        "this is XML, not JSON; \"pipesim import topology {}\" makes a topology of what NCCL wrote down of a "
        "machine"}};

void refuse_kinds(const JsonValue& root, std::string_view needed, std::string_view writer) {
  for (const FileKind& found : kKinds) {
    if (!root.find(found.key) || (!found.also.empty() && !root.find(found.also))) continue;
    throw InputError(fmt::format("{}: this is {}, not {}; {}; {}", root.source(), found.name, needed,
                                 fmt::format(fmt::runtime(found.use), root.source()), writer));
  }
}

}  // namespace

void require_file_kind(const JsonValue& root, std::string_view key) {
  if (!root.is_object() || root.find(key)) return;
  const FileKind& needed = kind_of(key);
  refuse_kinds(root, needed.name, needed.writer);
}

void refuse_json_as(std::string_view needed, std::string_view writer, const std::filesystem::path& file) {
  std::ifstream in(file);
  if (in.get() != '{') return;
  const JsonValue root = JsonDocument::load(file);
  if (root.is_object()) refuse_kinds(root, needed, writer);
}

void require_json_text(std::string_view text, std::string_view file) {
  for (const Format& format : kFormats) {
    if (text.starts_with(format.beginning))
      throw InputError(fmt::format("{}: {}", file, fmt::format(fmt::runtime(format.message), file)));
  }
}

}  // namespace pipesim
