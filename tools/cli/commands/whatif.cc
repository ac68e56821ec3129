#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <set>
#include <sstream>

#include "sim/base/cores.h"
#include "sim/base/errors.h"
#include "sim/base/files.h"
#include "sim/base/suggest.h"
#include "tools/analysis/inputs/calibration_use.h"
#include "tools/analysis/inputs/model_and_topology.h"
#include "tools/analysis/whatif/study.h"
#include "tools/base/figures.h"
#include "tools/cli/base/command.h"
#include "tools/cli/base/status_line.h"
#include "tools/cli/options/model_options.h"
#include "tools/cli/options/planner_options.h"
#include "tools/cli/options/search_options.h"
#include "tools/cli/options/subject_options.h"
#include "tools/cli/searching/interrupt.h"
#include "tools/cli/searching/launched_peers.h"
#include "tools/cli/searching/search_watch.h"
#include "tools/cli/whatif/plan_questions.h"
#include "tools/cli/whatif/run_points.h"
#include "tools/cli/whatif/varied_arguments.h"
#include "tools/cli/whatif/whatif_options.h"
#include "tools/render/base/table.h"
#include "tools/render/whatif/study_json.h"
#include "tools/render/whatif/study_text.h"

namespace pipesim {

namespace {

constexpr std::size_t kMostUnasked = 100'000;  // points, without --yes
constexpr std::size_t kMostPoints = 100'000'000;

// Options that say how a study is run and told, not what it is of.
const std::set<std::string>& options_of_runs() {
  static const std::set<std::string> names{"vary", "output", "csv",   "resume",     "threads", "yes",
                                           "json", "list",   "plans", "crossovers", "help"};
  return names;
}

PointPlans plans_of(const Arguments& a, const std::vector<StudyAxis>& axes = {}) {
  if (a.given("plans")) {
    constexpr std::array kAll{PointPlans::Same, PointPlans::Recipes, PointPlans::Search};
    std::vector<std::string> names;
    for (const PointPlans plans : kAll) names.emplace_back(name_of(plans));
    return kAll[static_cast<std::size_t>(std::ranges::find(names, a.choice("plans", names)) - names.begin())];
  }
  const auto varies = [&](std::string_view option) {
    return std::ranges::any_of(axes, [&](const StudyAxis& axis) {
      return std::ranges::any_of(axis.paths(), [&](const std::string& path) {
        return path == option || path.starts_with(std::string(option) + ".");
      });
    });
  };
  for (const char* option : {"plan", "recipe", "baseline"}) {
    if (a.has(option) || varies(option)) return PointPlans::Same;
  }
  if (a.given("algorithm") || varies("algorithm")) return PointPlans::Search;
  return has_recipes(open_model(model_text_of(a))) ? PointPlans::Recipes : PointPlans::Search;
}

Arguments for_points(const Arguments& a, PointPlans plans) {
  if (plans == PointPlans::Same) return a.with_default("algorithm", "auto");
  if (a.has("plan") || a.has("baseline"))
    throw UsageError(
        fmt::format("whatif: --plans {} finds a plan for each point, so --{} does not go with it",
                    name_of(plans), a.has("plan") ? "plan" : "baseline"));
  if (plans == PointPlans::Recipes && a.has("recipe"))
    throw UsageError(
        "whatif: --plans recipes finds a recipe for each point, so --recipe does not go with it");
  const Arguments made = plans == PointPlans::Recipes ? a.with("algorithm", "recipes") : a;
  std::vector<std::string> names;
  for (const Algorithm* planner : planners()) names.emplace_back(planner->name);
  (void)made.choice("algorithm", names);
  return made.with("threads", "1");
}

// What a study is of, as options of a command line.
std::vector<std::string> words_of_study(const Arguments& a) {
  std::vector<std::string> words;
  for (const auto& [option, value] : a.values()) {
    if (!a.given(option) || options_of_runs().contains(option)) continue;
    for (const std::string& one : a.texts(option)) words.push_back(fmt::format("--{}={}", option, one));
  }
  return words;
}

// Values that no point could have: figures of topologies that can't be read.
void check_axes(const Arguments& a, const std::vector<StudyAxis>& axes) {
  std::set<std::string> paths;
  for (const StudyAxis& axis : axes) {
    for (const std::string& path : axis.paths()) {
      if (!paths.insert(path).second) throw UsageError(fmt::format("whatif: --vary {} is given twice", path));
      require_varied(a, path);
    }
    for (std::size_t v = 0; v < axis.values.size(); ++v) {
      const Arguments point = varied(a, {axis}, {v});
      const bool of_topology =
          point.has("topology") && point.text("topology") != (a.has("topology") ? a.text("topology") : "");
      if (of_topology) (void)open_topology(point.text("topology"));
    }
  }
}

Study new_study(const Arguments& a) {
  Study study;
  study.words = words_of_study(a);
  for (const std::string& text : a.texts("vary")) study.axes.push_back(parse_axis(text));
  study.plans = plans_of(with_first_values(a, study.axes), study.axes);
  if (study.axes.empty()) a.refuse("--vary PATH=VALUES is missing; --list says what can be varied");
  const std::size_t points = number_of_points(study.axes);
  if (points > (a.given("yes") ? kMostPoints : kMostUnasked))
    throw UsageError(fmt::format("whatif: the study has {} points, allowed: up to {}", points,
                                 a.given("yes") ? fmt::format("{}", kMostPoints)
                                                : fmt::format("{}, or more with --yes", kMostUnasked)));
  study.points.resize(points);
  return study;
}

void name_model(const Arguments& a, Study& study) {
  if (a.has("plan")) {
    const PlanFile file = PlanFile::load(a.text("plan"));
    study.model = a.has("model") ? a.text("model") : file.model();
  } else {
    study.model = model_text_of(a);
  }
  study.model_fingerprint = open_model(study.model).fingerprint();
}

// What the command line says of a study that goes on must be what the file says.
Arguments arguments_of(const Study& study, const Arguments& a, const std::string& file) {
  const Arguments stored("whatif", whatif_options(), {}, study.words);
  for (const auto& [option, value] : a.values()) {
    if (!a.given(option) || options_of_runs().contains(option)) continue;
    if (!stored.given(option) || stored.text(option) != value)
      throw InputError(
          fmt::format("{}: is a study with --{} {}, not {}; a study that goes on keeps what it is of", file,
                      option, stored.has(option) ? stored.text(option) : "left out", value));
  }
  if (!a.texts("vary").empty())
    throw UsageError("whatif: --resume and --vary exclude each other: the study says what it varies");
  return stored;
}

// Tells how far it is, and writes the study now and then.
class StudyKeeper {
 public:
  StudyKeeper(const Study& study, std::string file, const Streams& streams)
      : study_(study),
        file_(std::move(file)),
        began_(Clock::now()),
        done_before_(study.done()),
        status_(streams) {}

  void point_done() {
    if (status_.due()) show();
    constexpr std::chrono::seconds kBetween{1};
    if (!file_.empty() && Clock::now() > written_ + kBetween) write();
  }
  void bisected() {
    ++bisected_;
    if (status_.due())
      status_.show(fmt::format("looking for crossovers, {} predicted", counted(bisected_, "more point")));
  }
  void write() {
    if (file_.empty()) return;
    write_file(file_, json_of(study_).dump(1) + "\n");
    written_ = Clock::now();
  }
  void clear() { status_.clear(); }

 private:
  using Clock = std::chrono::steady_clock;
  void show() {
    const std::size_t done = study_.done(), here = done - done_before_;
    const double took = std::chrono::duration<double>(Clock::now() - began_).count();
    const double left =
        here == 0 ? 0 : took / static_cast<double>(here) * static_cast<double>(study_.points.size() - done);
    status_.show(Progress{fmt::format("{} of {} points{}", done, study_.points.size(),
                                      left > 0 ? fmt::format(", about {} left", pretty(Seconds(left))) : ""),
                          static_cast<double>(done) / static_cast<double>(study_.points.size()),
                          {}});
  }

  const Study& study_;
  std::string file_;
  Clock::time_point began_, written_;
  std::size_t done_before_;
  std::int64_t bisected_ = 0;
  StatusLine status_;
};

int list_figures(const Arguments& a, Streams& streams) {
  const std::vector<VariedFigure> figures = varied_figures(a);
  if (a.given("json")) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const VariedFigure& f : figures)
      list.push_back({{"path", f.path}, {"now", f.now}, {"takes", f.takes}});
    give_document(streams, {{"figures", list}});
    return 0;
  }
  Table table({{"--vary"}, {"now"}, {"takes"}});
  for (const VariedFigure& f : figures) table.add({f.path, f.now, f.takes});
  streams.out << table.str();
  return 0;
}

int threads_of_study(const Arguments& a) {
  constexpr std::int64_t kMost = 1024;
  return a.given("threads") ? static_cast<int>(a.integer("threads", 1, kMost)) : available_cores();
}

Noise calibrated_noise(const Arguments& a) {
  if (!a.has("calibration")) throw UsageError("whatif: --noise calibration needs --calibration");
  return measured_noise(load_calibrations(a.text("calibration")));
}

std::optional<NoisyTimes> noise_of(const Arguments& a) {
  if (!a.has("noise")) {
    for (const char* option : {"objective", "samples"}) {
      if (a.given(option)) throw UsageError(fmt::format("whatif: --{} needs --noise", option));
    }
    return std::nullopt;
  }
  constexpr std::int64_t kMostSamples = 10'000'000;
  NoisyTimes noise;
  try {
    noise.noise = a.text("noise") == "calibration" ? calibrated_noise(a) : parse_noise(a.text("noise"));
    noise.objective_name = a.text("objective");
    noise.objective = parse_objective(noise.objective_name);
  } catch (const InputError& error) {
    throw UsageError(fmt::format("whatif: {}", error.what()));
  }
  noise.samples = a.integer("samples", 2, kMostSamples);
  noise.seed = static_cast<std::uint64_t>(a.integer("seed", 0, INT64_MAX));
  return noise;
}

std::optional<Failures> failures_of(const Arguments& a) {
  if (a.has("mtbf"))
    return Failures{a.duration("mtbf"), a.duration("checkpoint-time"), a.duration("restart-time")};
  for (const char* option : {"checkpoint-time", "restart-time"}) {
    if (a.given(option)) throw UsageError(fmt::format("whatif: --{} needs --mtbf", option));
  }
  return std::nullopt;
}

int answer_of_plan(const Arguments& a, Streams& streams) {
  const PlanQuestions questions{a.given("sensitivity"), noise_of(a), failures_of(a), threads_of_study(a),
                                a.given("json")};
  if (!questions.any())
    a.refuse(
        "--vary PATH=VALUES is missing, or --sensitivity, --noise or --mtbf; --list says what can be varied");
  const Interrupt interrupt(streams.caller);
  const PointPlans plans = plans_of(a);
  const PointRunner runner({plans, std::nullopt, [&] { return interrupt.requested(); }});
  answer(questions, runner.plan_of(for_points(a, plans)), streams);
  return 0;
}

// What --target-time and --target-cost ask for.
std::string target_text(const Arguments& a, const Study& study) {
  if (!a.has("target-time") && !a.has("target-cost")) return "";
  const double work = tokens_of(a);
  const auto told = [&](const std::string& what, const std::optional<TrainingAtPoint>& found) {
    if (!found) return fmt::format("{}: no point\n", what);
    std::vector<std::string> values;
    for (std::size_t i = 0; i < study.axes.size(); ++i)
      values.push_back(fmt::format("{}={}", study.axes[i].path, study.value(found->point, i)));
    return fmt::format(
        "{}: {}, {} in {}{}\n", what, fmt::join(values, " "), study.points[found->point]->recipe,
        pretty(Seconds(found->seconds)),
        found->price ? fmt::format(", which cost {}", pretty_count(std::llround(*found->price))) : "");
  };
  std::string text = "\n";
  if (a.has("target-time"))
    text += told(fmt::format("the cheapest within {}", a.text("target-time")),
                 cheapest_within(study, work, a.duration("target-time").value));
  constexpr double kMost = 1e15;
  if (a.has("target-cost"))
    text += told(fmt::format("the fastest for {}", a.text("target-cost")),
                 fastest_for(study, work, a.number("target-cost", 0, kMost)));
  return text;
}

void check_targets(const Arguments& a) {
  const bool target = a.has("target-time") || a.has("target-cost");
  if (target && !a.has("tokens"))
    throw UsageError(
        "whatif: --target-time and --target-cost need --tokens N, the tokens (or samples) to train with");
  if (target) (void)tokens_of(a);
  if (a.has("target-time")) (void)a.duration("target-time");
}

// The file, as the first of several processes finds it.
Study resumed_study(const std::string& file, PeerProcesses* peers) {
  if (peers == nullptr) return read_study(file);
  return study_in(peers->gather(peers->rank() == 0 ? read_file(file) : "").front(), file);
}

void tell(const Arguments& a, const Study& study, Streams& streams) {
  if (a.has("csv")) write_file(a.text("csv"), to_csv(study));
  if (a.given("json")) {
    give_document(streams, json_of(study));
  } else {
    streams.out << fmt::format("{}: {}, plans: {}\n\n", study.model,
                               counted(static_cast<std::int64_t>(study.points.size()), "point"),
                               name_of(study.plans))
                << to_text(study) << target_text(a, study);
  }
}

int run_study(const Arguments& a, PeerProcesses* peers, Streams& streams) {
  const bool first = peers == nullptr || peers->rank() == 0;
  const bool resumed = a.has("resume");
  for (const char* option : {"sensitivity", "mtbf"}) {
    if (a.given(option))
      throw UsageError(
          fmt::format("whatif: --{} asks about one plan, so --vary does not go with it", option));
  }
  Study study = resumed ? resumed_study(a.text("resume"), peers) : new_study(a);
  const Arguments told =
      with_first_values(resumed ? arguments_of(study, a, a.text("resume")) : a, study.axes);
  const Arguments arguments = for_points(told, study.plans);
  const std::optional<NoisyTimes> noise = noise_of(told);
  study.objective = noise ? noise->objective_name : "";
  const std::string model = study.model, fingerprint = study.model_fingerprint;
  name_model(told, study);
  if (resumed && fingerprint != study.model_fingerprint)
    throw InputError(fmt::format("{}: the study is of a model with the fingerprint {}, {} has {} now",
                                 a.text("resume"), fingerprint, model, study.model_fingerprint));
  if (!resumed) check_axes(arguments, study.axes);
  const std::string file = !first ? "" : a.has("output") ? a.text("output") : resumed ? a.text("resume") : "";
  const auto done = [&] {
    return fmt::format("{} of {} points are done{}", study.done(), study.points.size(),
                       file.empty() ? "; with -o FILE they would be kept"
                                    : fmt::format("; pipesim whatif --resume {} goes on", file));
  };
  const Interrupt interrupt(streams.caller);
  const PointRunner runner({study.plans, noise, [&] { return interrupt.requested(); }});
  std::ostringstream nobody;
  StudyKeeper keeper(study, file, first ? streams : Streams{streams.in, nobody, nobody});
  try {
    run_points(runner, arguments, study, threads_of_study(a), peers, [&] { keeper.point_done(); });
  } catch (const DeviceError& error) {  // of a process that died
    keeper.clear();
    keeper.write();
    throw DeviceError(fmt::format("{}; {}", error.what(), done()));
  }
  if (!first) return 0;
  const bool complete = study.done() == study.points.size();
  if (complete && a.given("crossovers"))
    find_crossovers(runner, arguments, study, [&] { keeper.bisected(); });
  keeper.clear();
  keeper.write();
  tell(a, study, streams);
  if (!complete || interrupt.requested()) {
    streams.err << fmt::format("pipesim: interrupted, {}\n", done());
    return kInterruptedStatus;
  }
  const auto has_plan = [](const std::optional<PointResult>& p) { return p->error.empty(); };
  if (std::ranges::none_of(study.points, has_plan))
    throw InputError(
        fmt::format("whatif: no point has a plan, the first because: {}", study.points.front()->error));
  return 0;
}

// A plan names the model and the devices that it is for.
Arguments with_origin_of_plan(Arguments a) {
  if (!a.has("plan") || (a.has("topology") && a.has("model"))) return a;
  const PlanFile plan = PlanFile::load(a.text("plan"));
  if (!a.has("topology")) a = a.with("topology", plan.topology());
  if (!a.has("model")) a = a.with("model", plan.model());
  return a;
}

int run_whatif(const Arguments& given, Streams& streams) {
  const Arguments a = with_origin_of_plan(given);
  const std::unique_ptr<PeerProcesses> peers = peers_of_launcher(a, streams);
  const bool study = a.has("resume") || !a.texts("vary").empty();
  if (peers && (a.given("list") || !study))
    throw UsageError("whatif: mpirun shares out the points of a study; --vary or --resume is missing");
  for (const char* file : {"output", "csv"}) {
    if (a.has(file) && (!peers || peers->rank() == 0)) require_writable(a.text(file));
  }
  check_targets(a);
  if (a.given("list")) return list_figures(a, streams);
  return study ? run_study(a, peers.get(), streams) : answer_of_plan(a, streams);
}

}  // namespace

Command whatif_command() {
  Command c;
  c.name = "whatif";
  c.summary = "predict many variants of a topology, model or plan";
  c.description =
      "Varies figures of the topology, the model, the recipe or the runtime, and predicts each combination."
      "\n\nThe plan of a point is the same everywhere, the best recipe, or what a search finds. Points run "
      "in "
      "parallel; results do not depend on --threads. A study that is written with -o is written during the "
      "run, too, and goes on with "
      "--resume after an interruption. Each point is what simulate or search predicts with these options; "
      "figures of a topology stand behind a + in its text.";
  c.options = whatif_options();
  c.common = {"model", "topology", "recipe", "vary", "plans", "list", "sensitivity", "output"};
  c.examples = {{"pipesim whatif --model gpt3-1.3b --topology dgx-a100:8 --recipe tp2 --batch 512 --vary "
                 "inter_node.bandwidth=25,50,100,200Gb/s",
                 "a slower network"},
                {"pipesim whatif --model llama3-8b --topology dgx-h100 --batch 128 --vary nodes=1,2,4 --vary "
                 "device=a100,h100",
                 "the best recipe on more nodes, of two kinds"}};
  c.run = run_whatif;
  return c;
}

}  // namespace pipesim
