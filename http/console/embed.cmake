# Writes OUTPUT, a source file that holds the files in FILES (a list of paths): name, type, digest and bytes.
# Run as: cmake -DOUTPUT=… -DFILES=… -P embed.cmake
set(types_html "text/html; charset=utf-8")
set(types_css "text/css; charset=utf-8")
set(types_mjs "text/javascript; charset=utf-8")
set(types_svg "image/svg+xml; charset=utf-8")

set(entries "")
foreach(path IN LISTS FILES)
    get_filename_component(name "${path}" NAME)
    get_filename_component(extension "${path}" LAST_EXT)
    string(SUBSTRING "${extension}" 1 -1 extension)
    if(NOT DEFINED types_${extension})
        message(FATAL_ERROR "${path}: the console has no content type for .${extension}")
    endif()
    file(READ "${path}" bytes HEX)
    file(SHA256 "${path}" digest)
    string(SUBSTRING "${digest}" 0 32 digest)
    string(LENGTH "${bytes}" size)
    math(EXPR size "${size} / 2")
    # Each literal has 128 bytes at most: compilers dislike endless lines.
    string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${bytes}")
    string(REPEAT "." 512 line)
    string(REGEX REPLACE "(${line})" "\\1\"\n     \"" bytes "${bytes}")
    string(APPEND entries
        "    {\"${name}\", \"${types_${extension}}\", \"\\\"${digest}\\\"\",\n     std::string_view(\"${bytes}\", ${size})},\n")
endforeach()

file(WRITE "${OUTPUT}"
"#include <array>

#include \"http/console/console.hpp\"

namespace atl::http {
namespace {
constexpr auto k_files = std::to_array<ConsoleFile>({
${entries}});
}  // namespace

std::span<const ConsoleFile> console_files() noexcept {
    return k_files;
}
}  // namespace atl::http
")
