// Path text both ways, shown paths, and conditions on entity tags: any path comes back from its text, which
// is UTF-8; any text is a path.
#include "core/plain/path_text.hpp"

#include "core/plain/entity_tag.hpp"
#include "tests/fuzz/support.hpp"

using namespace atl;
using fuzz::require;

namespace {

/// The rule of path_text.hpp once more, for a path that is UTF-8.
std::string plain_text(std::string_view path) {
    std::string out;
    const auto is_digit = [&](std::size_t at) {
        return at < path.size() &&
               std::string_view("0123456789abcdefABCDEF").find(path[at]) != std::string_view::npos;
    };
    for (std::size_t at = 0; at < path.size(); ++at)
        out += path[at] == '%' && is_digit(at + 1) && is_digit(at + 2) ? "%25" : std::string(1, path[at]);
    return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view path(reinterpret_cast<const char*>(data), size);
    const std::string text = base::path_text(path);
    require(base::is_utf8(text), "path text is UTF-8");
    require(base::path_bytes(text) == path, "a path comes back from its text");
    require(text.size() <= 3 * path.size(), "a text is at most three times as long");
    const std::string shown = base::shown_path(path);
    require(base::is_utf8(shown) && shown.size() <= 3 * path.size(), "a shown path is UTF-8, and bounded");
    require(base::is_utf8(path) == (shown == path), "UTF-8 is shown as it is, and nothing else is");
    require(base::path_bytes(base::path_href(path)) == path, "a path comes back from its href");
    if (base::is_utf8(path))
        require(text == plain_text(path), "UTF-8 stands for itself");
    const std::string bytes = base::path_bytes(path);
    require(base::path_bytes(base::path_text(bytes)) == bytes, "any text stands for a path");
    const bool strong = base::names_tag(path, "\"a\"", base::TagComparison::strong);
    require(!strong || base::names_tag(path, "\"a\"", base::TagComparison::weak),
            "what names a tag strongly names it weakly");
    require(!base::names_tag(path, "", base::TagComparison::weak), "nothing has no tag");
    return 0;
}
