#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "costmodel/calibration.h"

namespace pipesim {

/// A calibration in a file: SQLite, schema below, readable with `sqlite3 cpu.db`. The file is replaced as a
/// whole, under a temporary name first, so readers see an old state or a new one and nothing is lost to a
/// program that stops half way. For one writer at a time.
///
///   runs         id, host, processor, cores, kernel, date, noise_floor
///   versions     run, library, version
///   keys         id, subject, name, attributes, pass, sizes, type, place, busy_neighbours, flops,
///                bytes, matrix
///   samples      key, run, seconds
///   dropped      key, run, count
///   corrections  class, factor, overhead, tasks, runs
class CalibrationStore {
 public:
  /// A new file, or one that takes the place of `path` with the first save(). InputError when `path` can't be
  /// written.
  static CalibrationStore create(std::filesystem::path path, CalibrationRun run);
  /// An existing file, to which `run` adds. InputError as of load_calibration, or when it can't be written.
  static CalibrationStore open(std::filesystem::path path, CalibrationRun run);

  [[nodiscard]] const Calibration& calibration() const { return calibration_; }

  /// What add() would make of it.
  [[nodiscard]] Calibration with(std::span<const Measurement> batch) const;
  /// Adds the whole batch in one transaction, then calls save(). InputError with the file's name when a key
  /// has no clean sample; then nothing of the batch is kept.
  void add(std::span<const Measurement> batch);
  /// Replaces earlier corrections of the same classes; then calls save().
  void correct(const std::map<std::string, Correction>& corrections);
  /// InputError when writing fails; the file is as before then.
  void save() const;

 private:
  CalibrationStore(std::filesystem::path path, Calibration calibration);
  std::filesystem::path path_;
  Calibration calibration_;
};

/// InputError, each starting with the path, when the file can't be read, is not a calibration file, has
/// another schema version, is damaged, or holds a key without clean samples.
Calibration load_calibration(const std::filesystem::path& path);

/// The present time in the format of CalibrationRun::date.
std::string date_now();

}  // namespace pipesim
