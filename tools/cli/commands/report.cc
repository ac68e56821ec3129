#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <utility>
#include <variant>
#include <vector>

#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "sim/base/suggest.h"
#include "tools/cli/base/command.h"
#include "tools/cli/options/framework_options.h"
#include "tools/cli/options/model_options.h"
#include "tools/cli/options/subject_options.h"
#include "tools/render/page/plan_page.h"
#include "tools/render/page/read_input.h"
#include "tools/render/page/report_page.h"
#include "tools/render/page/svg/chart_pictures.h"
#include "tools/render/page/svg/plan_pictures.h"

namespace pipesim {
namespace {

using Json = nlohmann::ordered_json;

// What simulate takes beside --plan.
std::vector<Option> options_beside_plans() {
  std::vector<Option> options = model_and_topology_options();
  options.push_back(memory_margin_option());
  options.push_back(calibration_option());
  options.push_back(runtime_option());
  options.push_back(for_option());
  return options;
}

// What of the page, and which pictures, one file makes.
struct ReportPart {
  std::string name;
  Json json;
  std::vector<NamedPicture> pictures;
};

// `with_pictures`: whether anybody wants them.
ReportPart part_of_input(const ReportInput& input, const Arguments& a, std::int64_t most_tasks,
                         bool with_pictures, std::ostream& err) {
  const auto made = [&](const auto& page) {
    return ReportPart{page.name, json_of(page),
                      with_pictures ? pictures_of(page) : std::vector<NamedPicture>()};
  };
  if (const auto* plan = std::get_if<PlanInput>(&input)) {
    const Subject subject = subject_of("report", a.with_default("plan", plan->file), err);
    return made(plan_page(plan->file, subject, most_tasks, flops_counting_of(framework_of(a))));
  }
  if (const auto* course = std::get_if<SearchCourse>(&input)) return made(*course);
  if (const auto* measured = std::get_if<MeasuredPage>(&input)) return made(*measured);
  return made(std::get<StudyPage>(input));
}

// "gpt.plan" of "plans/gpt.plan.json"; names that were there already get a number.
std::string picture_stem(const std::string& file, std::map<std::string, int>& known) {
  const std::string stem = std::filesystem::path(file).stem().string();
  const int times = ++known[stem];
  return times == 1 ? stem : fmt::format("{}-{}", stem, times);
}

std::size_t write_pictures(const std::filesystem::path& folder, const std::vector<ReportPart>& parts) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error || !std::filesystem::is_directory(folder))
    throw InputError(fmt::format("{}: can't be made a folder for pictures{}", folder.string(),
                                 error ? ": " + error.message() : ""));
  std::map<std::string, int> known;
  std::size_t written = 0;
  for (const ReportPart& part : parts) {
    const std::string stem = picture_stem(part.name, known);
    for (const NamedPicture& picture : part.pictures) {
      write_file(folder / fmt::format("{}-{}.svg", stem, picture.name), picture.svg);
      ++written;
    }
  }
  return written;
}

int run_report(const Arguments& arguments, Streams& streams) {
  if (!arguments.has("output") && !arguments.has("svg")) arguments.refuse("-o FILE or --svg DIR is missing");
  if (arguments.has("output")) require_writable(arguments.text("output"));
  constexpr std::int64_t kMostDrawn = 10'000'000;
  const std::int64_t most_tasks = arguments.integer("tasks", 1, kMostDrawn);
  // All files are looked at before the first is simulated.
  std::vector<ReportInput> inputs;
  for (const std::string& file : arguments.operands()) inputs.push_back(read_report_input(file));
  std::vector<ReportPart> parts;
  for (const ReportInput& input : inputs)
    parts.push_back(part_of_input(input, arguments, most_tasks, arguments.has("svg"), streams.err));
  if (arguments.has("output")) {
    Json list = Json::array();
    for (ReportPart& part : parts) list.push_back(std::move(part.json));
    write_file(arguments.text("output"), report_page(list));
    streams.out << fmt::format("{}: a page of {}\n", arguments.text("output"),
                               counted(static_cast<std::int64_t>(parts.size()), "part"));
  }
  if (arguments.has("svg")) {
    const std::size_t written = write_pictures(arguments.text("svg"), parts);
    streams.out << fmt::format("{}: {}\n", arguments.text("svg"),
                               counted(static_cast<std::int64_t>(written), "picture"));
  }
  return 0;
}

}  // namespace

Command report_command() {
  Command c;
  c.name = "report";
  c.summary = "draw plans, searches and executions as one page for a browser";
  c.description =
      "Writes one HTML file that needs no other file and no network. It has the timeline of each plan, "
      "memory over time, the pipeline, and the load of links; how a search went; curves of a study; what was "
      "predicted beside what was measured, also as timelines. Several files stand side by side.\n\n"
      "A plan is simulated as pipesim simulate does it. Of plans with many devices those are drawn that "
      "stand "
      "for the others.";
  c.operands = {
      {.name = "FILE",
       .help = "a plan, a log of a search, a study or a result",
       .repeated = true,
       .details =
           "Plans are written by search -o, logs by search --search-log, studies by whatif -o, traces by "
           "execute --trace. Results are those of search --json, execute --json and compare --execute "
           "--json."}};
  c.options = options_beside_plans();
  for (Option& o : in_group(OptionGroup::Output, {{.name = "output",
                                                 .argument = "FILE",
                                                 .default_value = "",
                                                 .help = "write the page to FILE",
                                                 .letter = 'o'},
                                                  {.name = "svg",
                                                  .argument = "DIR",
                                                  .default_value = "",
                                                  .help = "write the pictures as SVG files to DIR",
                                                  .details = "Such as gpt.plan-timeline.svg of "
                                                             "gpt.plan.json. DIR is made if needed."},
                                                  {.name = "tasks",
                                                  .argument = "N",
                                                  .default_value = "150000",
                                                  .help = "draw all devices up to N tasks",
                                                  .details = "Of larger plans one device of each kind is "
                                                             "drawn, and as many microbatches as prove the "
                                                             "times of the others."}}))
    c.options.push_back(std::move(o));
  c.common = {"output", "svg", "tasks", "model", "topology"};
  c.examples = {{"pipesim report llama.plan.json -o llama.html", "draw a plan"}};
  c.run = run_report;
  return c;
}

}  // namespace pipesim
