#pragma once

#include <string>

#include "sim/base/errors.h"

namespace pipesim {

/// The message of the error that `action` throws, or "accepted".
template <class Error = InputError, class Action>
std::string refusal(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace pipesim
