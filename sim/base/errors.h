#pragma once

#include <stdexcept>
#include <string>

namespace pipesim {

/// The user gave something that can't be used: one line that says where, what was found and what is allowed.
/// The program prints it and exits with 1.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The command line itself is wrong (unknown option, missing argument). Exit status 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A device failed while a plan was being executed. Exit status 3.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A promise of pipesim's own code was broken: a bug in pipesim, never the user's fault. Exit status 70.
class InternalError : public std::logic_error {
 public:
  explicit InternalError(const std::string& what)
      : std::logic_error(what + " (this is a bug in pipesim, please report it)") {}
};

}  // namespace pipesim
