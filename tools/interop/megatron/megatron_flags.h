#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

/// What becomes of an argument of Megatron-LM, or of its forks by BigScience and DeepSpeed.
enum class FlagEffect : std::uint8_t {
  Used,         ///< it is read
  None,         ///< it changes neither time nor memory of an iteration
  NotModelled,  ///< it changes them, and the plan goes without
  Refused       ///< the plan would be another one
};

struct MegatronFlag {
  std::string flag;
  FlagEffect effect = FlagEffect::None;
  std::string_view what;    ///< how a plan goes without, or what cannot be expressed
  std::string_view unless;  ///< values that ask for nothing, beside none, false and 0
};

/// nullptr: no version of these programs has the argument.
const MegatronFlag* megatron_flag(std::string_view flag);

/// All names, for "did you mean".
const std::vector<std::string>& megatron_flag_names();

/// Whether a value asks for what `flag` does.
bool asks_for(const MegatronFlag& flag, std::string_view value);

/// An older name, or that of a fork. `means` are today's words.
struct MegatronAlias {
  std::string_view flag, means;
  bool passes_values = false;  ///< on to the last of these words
};

/// nullptr: the name is today's.
const MegatronAlias* megatron_alias(std::string_view flag);

/// What is read of the run that a program of Megatron-LM starts.
struct MegatronProgram {
  std::string_view name;  ///< a part of the program's name
  std::string_view what;  ///< what cannot be expressed; "": it trains what its arguments describe
};

/// By the name of the program, as pretrain_gpt.py; nullptr: it is none of Megatron-LM.
const MegatronProgram* megatron_program(std::string_view name);

}  // namespace pipesim
