#include "tools/render/page/svg/svg_picture.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

namespace pipesim {
namespace {

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
  }
  return safe;
}

// Two digits behind the point, without zeros at the end.
std::string pixel(double value) {
  std::string text = fmt::format("{:.2f}", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string dashed(std::string_view dashes) {
  return dashes.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", dashes);
}

}  // namespace

SvgPicture::SvgPicture(double width, double height, std::string_view title) {
  text_ = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "role=\"img\" "
      "font-family=\"system-ui, 'DejaVu Sans', sans-serif\">\n<title>{2}</title>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
      pixel(width), pixel(height), escaped(title));
}

void SvgPicture::close(std::string_view element, std::string_view hint) {
  text_ += hint.empty() ? "/>\n" : fmt::format("><title>{}</title></{}>\n", escaped(hint), element);
}

void SvgPicture::rectangle(double x, double y, double width, double height, std::string_view fill,
                           std::string_view hint, double opacity) {
  text_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"", pixel(x), pixel(y),
                       pixel(width), pixel(height), fill);
  if (opacity < 1) text_ += fmt::format(" fill-opacity=\"{}\"", pixel(opacity));
  close("rect", hint);
}

void SvgPicture::frame(double x, double y, double width, double height, double radius, std::string_view fill,
                       std::string_view stroke) {
  text_ += fmt::format(
      "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\" fill=\"{}\" stroke=\"{}\"/>\n", pixel(x),
      pixel(y), pixel(width), pixel(height), pixel(radius), fill, stroke);
}

void SvgPicture::line(double x1, double y1, double x2, double y2, std::string_view stroke, double width,
                      std::string_view hint, std::string_view dashes) {
  text_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{}\" stroke-width=\"{}\"{}",
                       pixel(x1), pixel(y1), pixel(x2), pixel(y2), stroke, pixel(width), dashed(dashes));
  close("line", hint);
}

void SvgPicture::text(double x, double y, std::string_view text, SvgAlign align, double size,
                      std::string_view fill, bool bold) {
  const char* const anchor = align == SvgAlign::Start ? ""
                                                      : (align == SvgAlign::Middle ? " text-anchor=\"middle\""
                                                                                   : " text-anchor=\"end\"");
  text_ +=
      fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\"{}{}>{}</text>\n", pixel(x), pixel(y),
                  pixel(size), fill, anchor, bold ? " font-weight=\"600\"" : "", escaped(text));
}

void SvgPicture::path(const std::vector<Point>& points, std::string_view fill, std::string_view stroke,
                      double width, std::string_view dashes) {
  if (points.empty()) return;
  std::string steps;
  for (const Point& p : points)
    steps += fmt::format("{}{} {}", steps.empty() ? "M" : "L", pixel(p.x), pixel(p.y));
  if (fill != "none") steps += "Z";
  text_ += fmt::format("<path d=\"{}\" fill=\"{}\" stroke=\"{}\" stroke-width=\"{}\"{}/>\n", steps, fill,
                       stroke, pixel(width), dashed(dashes));
}

void SvgPicture::circle(double x, double y, double radius, std::string_view fill, std::string_view hint) {
  text_ += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\" fill=\"{}\"", pixel(x), pixel(y), pixel(radius),
                       fill);
  close("circle", hint);
}

void SvgPicture::cross(double x, double y, double radius, std::string_view hint) {
  constexpr double kStroke = 2;
  line(x - radius, y - radius, x + radius, y + radius, kAccent, kStroke, hint);
  line(x - radius, y + radius, x + radius, y - radius, kAccent, kStroke, hint);
}

std::string shortened_label(const std::string& text, std::size_t most) {
  return text.size() > most ? text.substr(0, most - 1) + "…" : text;
}

double draw_legend(SvgPicture& picture, double x, double y, double width,
                   const std::vector<SvgLegendEntry>& entries) {
  constexpr double kSwatch = 12, kLineHeight = 20, kLetter = 7, kBetween = 34;
  double at = x;
  for (const SvgLegendEntry& entry : entries) {
    const double wide = kBetween + kLetter * static_cast<double>(entry.name.size());
    if (at > x && at + wide > x + width) {
      at = x;
      y += kLineHeight;
    }
    picture.rectangle(at, y, kSwatch, kSwatch, entry.color);
    picture.text(at + kSwatch + 5, y + kSwatch - 2, entry.name);
    at += wide;
  }
  return y + kLineHeight;
}

std::vector<double> round_ticks(double low, double high, int count) {
  if (!(high > low) || count < 1) return {low};
  const double rough = (high - low) / count, power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (rough <= factor * power) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> ticks;
  constexpr double kSlack = 1e-9;
  for (auto i = static_cast<std::int64_t>(std::ceil(low / step - kSlack));
       static_cast<double>(i) * step <= high + kSlack * step; ++i)
    ticks.push_back(static_cast<double>(i) * step);
  return ticks;
}

}  // namespace pipesim
