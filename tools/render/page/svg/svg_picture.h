#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

enum class SvgAlign : std::uint8_t { Start, Middle, End };

/// A picture in SVG that needs nothing else: dark on white, in pixels. Colors are "#rrggbb"; text is escaped.
class SvgPicture {
 public:
  SvgPicture(double width, double height, std::string_view title);

  /// `hint`: shown by browsers while the pointer is over it; "": none.
  void rectangle(double x, double y, double width, double height, std::string_view fill,
                 std::string_view hint = {}, double opacity = 1);
  void frame(double x, double y, double width, double height, double radius, std::string_view fill,
             std::string_view stroke);
  void line(double x1, double y1, double x2, double y2, std::string_view stroke, double width = 1,
            std::string_view hint = {}, std::string_view dashes = {});
  void text(double x, double y, std::string_view text, SvgAlign align = SvgAlign::Start, double size = 12,
            std::string_view fill = kInk, bool bold = false);
  /// Through all points; closed where it is filled.
  struct Point {
    double x = 0, y = 0;
  };
  void path(const std::vector<Point>& points, std::string_view fill, std::string_view stroke,
            double width = 1, std::string_view dashes = {});
  void circle(double x, double y, double radius, std::string_view fill, std::string_view hint = {});

  /// Two short lines across each other.
  void cross(double x, double y, double radius, std::string_view hint = {});

  [[nodiscard]] std::string str() const { return text_ + "</svg>\n"; }

  static constexpr std::string_view kInk = "#1a1a1a", kSoft = "#565b62", kLine = "#dfe3e8",
                                    kPanel = "#f5f7f9", kAccent = "#b3261e";

 private:
  void close(std::string_view element, std::string_view hint);
  std::string text_;
};

/// With "…" where it has more characters than `most`.
std::string shortened_label(const std::string& text, std::size_t most);

/// A swatch and its name.
struct SvgLegendEntry {
  std::string_view color;
  std::string name;
};

/// Writes swatches from (x, y) on, in lines of at most `width`; returns the y below them.
double draw_legend(SvgPicture& picture, double x, double y, double width,
                   const std::vector<SvgLegendEntry>& entries);

/// About `count` round numbers from `low` to `high`, ascending: multiples of 1, 2 or 5 times a power of ten.
std::vector<double> round_ticks(double low, double high, int count);

}  // namespace pipesim
