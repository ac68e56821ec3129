# cmake -DTEMPLATE=… -DOUTPUT=… -P template.cmake: writes a source file that holds the template of reports, as bytes:
# compilers limit the length of strings.
file(READ ${TEMPLATE} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "#include \"tools/reports/page/report_page.h\"

namespace pipesim {
namespace {
constexpr char kTemplate[] = {${bytes}};
}  // namespace

std::string_view page_template() { return {kTemplate, sizeof kTemplate}; }

}  // namespace pipesim
")
