# cmake -DFILE=… -DHEADER=… -DFUNCTION=… -DOUTPUT=… -P embedded.cmake: writes a source file with a function that returns the
# file, as HEADER declares it. The file stands there as bytes: compilers limit the length of strings. Those above 127 are
# written as characters, since a char may have a sign.
file(READ ${FILE} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "0x([89a-f][0-9a-f])" "'\\\\x\\1'" bytes "${bytes}")
file(WRITE ${OUTPUT} "#include \"${HEADER}\"

namespace pipesim {
namespace {
constexpr char kBytes[] = {${bytes}};
}  // namespace

std::string_view ${FUNCTION}() { return {kBytes, sizeof kBytes}; }

}  // namespace pipesim
")
