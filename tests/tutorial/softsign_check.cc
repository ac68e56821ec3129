// Compiled with the sources that docs/tutorial.md has changed: the new activation is what its name says, and
// its slope is that of its value. Exit status 1, and a line, where not.
#include <cmath>
#include <cstdio>

#include "executor/operators/activation.h"
#include "tests/executor/cpu/defined_activation.h"

int main() {
  using enum pipesim::Activation;
  int wrong = 0;
  const auto expect = [&](const char* what, double x, double found, double expected) {
    if (std::abs(found - expected) <= 1e-3 * (1 + std::abs(expected))) return;
    std::printf("%s at %g: found %g, expected %g\n", what, x, found, expected);
    ++wrong;
  };
  const auto value = [](double x) { return pipesim::cpu::defined_activation("softsign", x); };
  for (double x = -30; x <= 30; x += 0.37) {
    constexpr double step = 1e-4;
    const auto at = static_cast<float>(x);
    expect("softsign", x, pipesim::activation_value<Softsign>(at), value(x));
    expect("its slope", x, pipesim::activation_slope<Softsign>(at),
           (value(x + step) - value(x - step)) / (2 * step));
  }
  expect("softsign", -1e30, pipesim::activation_value<Softsign>(-1e30F), -1);
  if (!pipesim::needs_input(Softsign)) {
    std::puts("softsign does not keep its input");
    ++wrong;
  }
  return wrong == 0 ? 0 : 1;
}
