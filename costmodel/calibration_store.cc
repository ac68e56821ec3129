#include "costmodel/calibration_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "costmodel/database.h"
#include "sim/base/errors.h"
#include "sim/base/file_kind.h"
#include "sim/base/files.h"

namespace pipesim {
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t application_id = 0x70736361;  // "psca"
constexpr std::int64_t schema_version = 1;

const char* const schema = R"(
  CREATE TABLE runs(id INTEGER PRIMARY KEY, host TEXT, processor TEXT, cores INTEGER, kernel TEXT, date TEXT,
                    noise_floor REAL);
  CREATE TABLE versions(run INTEGER, library TEXT, version TEXT);
  CREATE TABLE keys(id INTEGER PRIMARY KEY, subject TEXT, name TEXT, attributes TEXT, pass TEXT, sizes TEXT,
                    type TEXT, place TEXT, busy_neighbours INTEGER, flops REAL, bytes REAL, matrix TEXT);
  CREATE TABLE samples(key INTEGER, run INTEGER, seconds REAL);
  CREATE TABLE dropped(key INTEGER, run INTEGER, count INTEGER);
  CREATE TABLE corrections(class TEXT PRIMARY KEY, factor REAL, overhead REAL, tasks INTEGER, runs INTEGER);
)";

std::string without_spaces(std::string_view text) {
  std::string rest;
  std::ranges::copy_if(text, std::back_inserter(rest), [](char c) { return c != ' ' && c != '\n'; });
  return rest;
}

// CREATE statements of the schema.
std::set<std::string> schema_statements() {
  std::set<std::string> statements;
  const std::string text = without_spaces(schema);
  for (std::size_t begin = 0, end = 0; (end = text.find(';', begin)) != std::string::npos; begin = end + 1)
    statements.insert(text.substr(begin, end - begin));
  return statements;
}

constexpr const char* subjects[] = {"operator", "update", "transfer"};
constexpr Pass passes[] = {Pass::Forward, Pass::BackwardInput, Pass::BackwardWeight, Pass::Update};

std::string list_text(const std::vector<std::int64_t>& values) {
  return fmt::format("{}", fmt::join(values, ","));
}

std::string matrix_text(const std::optional<MatrixSize>& matrix) {
  if (!matrix) return "";
  std::vector<std::int64_t> numbers{matrix->batch, matrix->rows, matrix->columns, matrix->inner};
  if (matrix->fused != FusedPass::None) numbers.push_back(static_cast<std::int64_t>(matrix->fused));
  return list_text(numbers);
}

// Writes one calibration into an empty database.
class CalibrationWriter {
 public:
  CalibrationWriter(Database& database, const Calibration& calibration)
      : database_(database), calibration_(calibration) {}

  void write() {
    database_.execute(
        fmt::format("PRAGMA journal_mode = OFF; PRAGMA application_id = {}; PRAGMA user_version = {}; BEGIN;",
                    application_id, schema_version));
    database_.execute(schema);
    write_runs();
    write_keys();
    write_corrections();
    database_.execute("COMMIT");
  }

 private:
  void write_runs() {
    Statement run(database_, "INSERT INTO runs VALUES(?,?,?,?,?,?,?)");
    Statement version(database_, "INSERT INTO versions VALUES(?,?,?)");
    for (std::size_t i = 0; i < calibration_.runs.size(); ++i) {
      const CalibrationRun& r = calibration_.runs[i];
      const auto id = static_cast<std::int64_t>(i);
      run.bind(id).bind(r.host.name).bind(r.host.processor).bind(std::int64_t{r.host.cores});
      run.bind(r.host.kernel).bind(r.date).bind(r.noise_floor).run();
      for (const auto& [library, text] : r.host.versions) version.bind(id).bind(library).bind(text).run();
    }
  }

  void write_keys() {
    Statement row(database_, "INSERT INTO keys VALUES(?,?,?,?,?,?,?,?,?,?,?,?)");
    Statement sample(database_, "INSERT INTO samples VALUES(?,?,?)");
    Statement dropped(database_, "INSERT INTO dropped VALUES(?,?,?)");
    std::int64_t id = 0;
    for (const auto& [key, measured] : calibration_.keys) {
      row.bind(++id).bind(subjects[static_cast<std::size_t>(key.subject)]).bind(key.name);
      row.bind(key.attributes).bind(correction_class(key.pass)).bind(list_text(key.sizes));
      row.bind(name_of(key.type)).bind(key.place).bind(std::int64_t{key.busy_neighbours});
      row.bind(measured.work.flops).bind(measured.work.bytes).bind(matrix_text(measured.work.matrix)).run();
      for (const RunSamples& samples : measured.samples) {
        const auto run = static_cast<std::int64_t>(samples.run);
        for (const double s : samples.durations.sorted_seconds()) sample.bind(id).bind(run).bind(s).run();
        if (samples.durations.dropped() > 0)
          dropped.bind(id).bind(run).bind(samples.durations.dropped()).run();
      }
    }
  }

  void write_corrections() {
    Statement row(database_, "INSERT INTO corrections VALUES(?,?,?,?,?)");
    for (const auto& [name, c] : calibration_.corrections)
      row.bind(name).bind(c.factor).bind(c.overhead).bind(c.tasks).bind(c.runs).run();
  }

  Database& database_;
  const Calibration& calibration_;
};

// Reads one, and trusts nothing: people edit such files.
class CalibrationReader {
 public:
  explicit CalibrationReader(Database& database) : database_(database) {}

  Calibration read() {
    check_schema();
    read_runs();
    read_keys();
    read_corrections();
    return std::move(calibration_);
  }

 private:
  template <class... Arguments>
  [[noreturn]] void damaged(fmt::format_string<Arguments...> reason, Arguments&&... arguments) const {
    throw InputError(fmt::format("{}: is damaged: {}", database_.path(),
                                 fmt::format(reason, std::forward<Arguments>(arguments)...)));
  }

  void check_schema() {
    if (database_.integer("PRAGMA application_id") != application_id)
      throw InputError(fmt::format("{}: is not a calibration file", database_.path()));
    const std::int64_t version = database_.integer("PRAGMA user_version");
    if (version != schema_version) {
      throw InputError(fmt::format("{}: has schema version {}, this pipesim reads version {}",
                                   database_.path(), version, schema_version));
    }
    check_tables();
    const std::string verdict = database_.text("PRAGMA quick_check(1)");
    if (verdict != "ok") damaged("{}", verdict);
  }

  // Reading must evaluate no expression that the file brings along: a view, a check, a generated column.
  void check_tables() {
    const std::set<std::string> known = schema_statements();
    Statement made(database_, "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL");
    while (made.next()) {
      const std::string name = made.text();
      if (!known.contains(without_spaces(made.text()))) damaged("\"{}\" is no table of a calibration", name);
    }
  }

  std::int64_t count(Statement& row, std::string_view what, std::int64_t most) const {
    const std::int64_t found = row.integer();
    if (found < 0 || found > most) damaged("found {} {}, allowed: 0 to {}", found, what, most);
    return found;
  }

  double amount(Statement& row, std::string_view what) const {
    const double found = row.real();
    if (!std::isfinite(found) || found < 0) damaged("found {} {}, allowed: numbers from 0 on", found, what);
    return found;
  }

  void read_runs() {
    Statement rows(database_,
                   "SELECT host, processor, cores, kernel, date, noise_floor FROM runs ORDER BY id");
    while (rows.next()) {
      CalibrationRun& run = calibration_.runs.emplace_back();
      run.host.name = rows.text();
      run.host.processor = rows.text();
      run.host.cores = static_cast<int>(count(rows, "cores", INT32_MAX));
      run.host.kernel = rows.text();
      run.date = rows.text();
      run.noise_floor = amount(rows, "of noise");
    }
    Statement versions(database_, "SELECT run, library, version FROM versions");
    while (versions.next()) {
      const std::size_t run = run_index(versions.integer());
      const std::string library = versions.text();
      calibration_.runs[run].host.versions[library] = versions.text();
    }
  }

  [[nodiscard]] std::size_t run_index(std::int64_t run) const {
    if (run < 0 || run >= static_cast<std::int64_t>(calibration_.runs.size()))
      damaged("there is no run {}", run);
    return static_cast<std::size_t>(run);
  }

  void read_keys() {
    Statement rows(
        database_,
        "SELECT id, subject, name, attributes, pass, sizes, type, place, busy_neighbours, flops, bytes, "
        "matrix FROM keys");
    while (rows.next()) {
      const std::int64_t id = rows.integer();
      const CalibrationKey key = read_key(rows);
      MeasuredKey measured;
      measured.work.flops = amount(rows, "FLOPs");
      measured.work.bytes = amount(rows, "bytes");
      measured.work.matrix = matrix_of(rows.text());
      measured.samples = read_samples(id, key);
      if (!calibration_.keys.emplace(key, std::move(measured)).second)
        damaged("{} is there twice", key.str());
    }
  }

  CalibrationKey read_key(Statement& row) {
    CalibrationKey key;
    const std::string subject = row.text();
    const auto* const found = std::find(std::begin(subjects), std::end(subjects), subject);
    if (found == std::end(subjects)) damaged("unknown subject \"{}\"", subject);
    key.subject = static_cast<CalibrationKey::Subject>(found - std::begin(subjects));
    key.name = row.text();
    key.attributes = row.text();
    key.pass = pass_named(row.text());
    key.sizes = list_of(row.text());
    check_sizes(key);
    try {
      key.type = parse_data_type(row.text());
      if (key.subject == CalibrationKey::Subject::Update) parse_optimizer(key.name);
    } catch (const InputError& error) {
      damaged("{}", error.what());
    }
    key.place = row.text();
    key.busy_neighbours = static_cast<std::int32_t>(count(row, "busy neighbours", INT32_MAX));
    return key;
  }

  void check_sizes(const CalibrationKey& key) const {
    if (key.subject == CalibrationKey::Subject::Operator) return;
    const std::size_t needed = key.subject == CalibrationKey::Subject::Update ? 1 : 2;
    const auto negative = [](std::int64_t size) { return size < 0; };
    if (key.sizes.size() != needed || std::any_of(key.sizes.begin(), key.sizes.end(), negative))
      damaged("sizes \"{}\" of a key of {}, allowed: {} from 0 on", list_text(key.sizes), key.name, needed);
  }

  [[nodiscard]] Pass pass_named(const std::string& name) const {
    for (const Pass pass : passes) {
      if (correction_class(pass) == name) return pass;
    }
    damaged("unknown pass \"{}\"", name);
  }

  [[nodiscard]] std::vector<std::int64_t> list_of(const std::string& text) const {
    std::vector<std::int64_t> values;
    const char* const last = text.data() + text.size();
    for (const char* at = text.data(); at != last;) {
      std::int64_t value = 0;
      const auto [end, error] = std::from_chars(at, last, value);
      if (error != std::errc{} || (end != last && (*end != ',' || end + 1 == last)))
        damaged("\"{}\" is no list of integers", text);
      values.push_back(value);
      at = end == last ? end : end + 1;
    }
    return values;
  }

  [[nodiscard]] std::optional<MatrixSize> matrix_of(const std::string& text) const {
    const std::vector<std::int64_t> v = list_of(text);
    if (v.empty()) return std::nullopt;
    const bool fused = v.size() == 5 && v[4] <= static_cast<std::int64_t>(FusedPass::Backward);
    if ((v.size() != 4 && !fused) || *std::min_element(v.begin(), v.end()) < 1)
      damaged("\"{}\" is no matrix size", text);
    return MatrixSize{v[0], v[1], v[2], v[3], fused ? static_cast<FusedPass>(v[4]) : FusedPass::None};
  }

  std::vector<RunSamples> read_samples(std::int64_t id, const CalibrationKey& key) {
    if (!samples_of_) read_all_samples();
    std::vector<RunSamples> all;
    std::int64_t lost = 0;
    for (auto& [run, measured] : (*samples_of_)[id]) {
      lost += measured.dropped;
      if (!measured.seconds.empty())
        all.push_back({run_index(run), Distribution(std::move(measured.seconds), measured.dropped)});
    }
    if (all.empty()) {
      throw InputError(fmt::format("{}: no clean samples of {}, {} {} dropped", database_.path(), key.str(),
                                   lost, lost == 1 ? "was" : "were"));
    }
    return all;
  }

  static constexpr std::int64_t kMostCounted = 1'000'000'000'000;
  struct RawSamples {
    std::vector<double> seconds;
    std::int64_t dropped = 0;
  };

  void read_all_samples() {
    samples_of_.emplace();
    Statement samples(database_, "SELECT key, run, seconds FROM samples");
    while (samples.next()) {
      const std::int64_t key = samples.integer(), run = samples.integer();
      const double seconds = samples.real();
      if (!std::isfinite(seconds) || seconds <= 0) damaged("a sample is {} s, allowed: above 0", seconds);
      (*samples_of_)[key][run].seconds.push_back(seconds);
    }
    Statement dropped(database_, "SELECT key, run, count FROM dropped");
    while (dropped.next()) {
      const std::int64_t key = dropped.integer(), run = dropped.integer();
      std::int64_t& all = (*samples_of_)[key][run].dropped;
      all += count(dropped, "dropped samples", kMostCounted);
      if (all > kMostCounted)
        damaged("found {} dropped samples of a key, allowed: 0 to {}", all, kMostCounted);
    }
  }

  void read_corrections() {
    Statement rows(database_, "SELECT class, factor, overhead, tasks, runs FROM corrections");
    while (rows.next()) {
      const std::string name = rows.text();
      Correction c;
      c.factor = rows.real();
      c.overhead = rows.real();
      c.tasks = count(rows, "tasks", kMostCounted);
      c.runs = count(rows, "runs", kMostCounted);
      if (!std::isfinite(c.factor) || c.factor <= 0 || !std::isfinite(c.overhead) || c.overhead < 0)
        damaged("the correction of {} is {} and {} s", name, c.factor, c.overhead);
      calibration_.corrections[name] = c;
    }
  }

  Database& database_;
  Calibration calibration_;
  std::optional<std::map<std::int64_t, std::map<std::int64_t, RawSamples>>> samples_of_;  // by key, run
};

}  // namespace

CalibrationStore::CalibrationStore(fs::path path, Calibration calibration)
    : path_(std::move(path)), calibration_(std::move(calibration)) {}

CalibrationStore CalibrationStore::create(fs::path path, CalibrationRun run) {
  require_writable(path);
  Calibration calibration;
  calibration.runs.push_back(std::move(run));
  return {std::move(path), std::move(calibration)};
}

CalibrationStore CalibrationStore::open(fs::path path, CalibrationRun run) {
  require_writable(path);
  Calibration calibration = load_calibration(path);
  calibration.runs.push_back(std::move(run));
  return {std::move(path), std::move(calibration)};
}

Calibration CalibrationStore::with(std::span<const Measurement> batch) const {
  Calibration grown = calibration_;
  try {
    for (const Measurement& measurement : batch) grown.add(measurement);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", path_.string(), error.what()));
  }
  return grown;
}

void CalibrationStore::add(std::span<const Measurement> batch) {
  calibration_ = with(batch);
  save();
}

void CalibrationStore::correct(const std::map<std::string, Correction>& corrections) {
  for (const auto& [name, correction] : corrections) calibration_.corrections[name] = correction;
  save();
}

void CalibrationStore::save() const {
  require_writable(path_);
  const fs::path temporary = path_.string() + fmt::format(".{}", ::getpid());
  std::error_code error;
  fs::remove(temporary, error);
  try {
    {
      Database database(temporary, Database::Mode::Create, path_.string());
      CalibrationWriter(database, calibration_).write();
    }
    fs::rename(temporary, path_, error);
    if (error) throw InputError(fmt::format("{}: can't be written: {}", path_.string(), error.message()));
  } catch (const InputError&) {
    fs::remove(temporary, error);
    throw;
  }
}

Calibration load_calibration(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) read_file(path);  // says what it is instead
  refuse_json_as("a calibration", "\"pipesim calibrate … -o FILE\" measures one", path);
  Database database(path, Database::Mode::Read, path.string());
  return CalibrationReader(database).read();
}

std::string date_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec);
}

}  // namespace pipesim
