// The input of the tools from a model or a client: arguments, globs, paths; and the output of ripgrep.
#include <algorithm>

#include "bridge/guest/tools/glob_pattern.hpp"
#include "bridge/guest/tools/search_output.hpp"
#include "bridge/guest/tools/text_diff.hpp"
#include "bridge/guest/tools/tool_arguments.hpp"
#include "bridge/guest/tools/tool_result.hpp"
#include "core/plain/utf8.hpp"
#include "tests/fuzz/support.hpp"

using namespace atl;
using fuzz::require;

namespace {

/// Accepted arguments have the table's types and ranges; a refusal says why, in UTF-8.
void check_arguments(std::string_view text) {
    for (const base::ToolSpec& tool : base::k_tools) {
        const guest::ToolArguments arguments(tool, text);
        if (!arguments.is_good()) {
            require(base::is_utf8(arguments.problem()), "a problem is UTF-8");
            continue;
        }
        const auto document = fuzz::read_document(text);
        require(document.accepted && document.value.is_object(), "arguments are an object");
        for (const base::ToolParameter& parameter : tool.parameters) {
            require(parameter.need != base::ToolNeed::required || arguments.has(parameter.name),
                    "what is required is there");
            if (!arguments.has(parameter.name))
                continue;
            if (parameter.value == base::ToolValue::text)
                static_cast<void>(arguments.text(parameter.name));
            else if (parameter.value == base::ToolValue::flag)
                static_cast<void>(arguments.flag(parameter.name, false));
            else if (parameter.value == base::ToolValue::text_list)
                require(arguments.text_list(parameter.name).size() <= base::k_max_tool_ignores,
                        "a list is bounded");
            else
                require(*arguments.count(parameter.name) <= static_cast<std::uint64_t>(parameter.most),
                        "a count is in its range");
        }
    }
}

/// A glob without special characters matches itself and nothing else; any is matched without end or report.
void check_glob(std::string_view text) {
    const std::size_t half = text.find('\n');
    const std::string_view glob = text.substr(0, std::min(half, std::size_t{512}));
    const std::string_view path =
        half == std::string_view::npos ? glob : text.substr(half + 1).substr(0, 512);
    using Glob = guest::GlobPattern;
    const bool as_set = Glob(glob, Glob::Case::differs, Glob::Brackets::set).matches(path);
    const bool as_either = Glob(glob, Glob::Case::differs, Glob::Brackets::either).matches(path);
    const bool any_case = Glob(glob, Glob::Case::ignored, Glob::Brackets::either).matches(path);
    const bool is_plain = glob.find_first_of("*?[]{},\\") == std::string_view::npos;
    require(!as_set || as_either || glob.find('[') == std::string_view::npos,
            "either reading includes the set");
    require(!as_either || any_case || glob.find("[!") != std::string_view::npos ||
                glob.find("[^") != std::string_view::npos,
            "a match is one in any case");
    require(!is_plain || as_set == (glob == path), "a plain glob is a name");
}

void check_output(std::string_view text, std::uint8_t seed) {
    const auto read = [](const std::vector<std::string_view>& pieces) {
        std::string seen;
        const auto take = [&](const guest::SearchMatch& match) {
            require(match.line.size() <= 64, "a line is bounded");
            seen += match.path + '\0' + std::to_string(match.line_number) + ':' + match.line + '\n';
            return true;
        };
        // Some names are those of files.
        const auto is_file = [](const std::string& path) { return path.size() % 2 == 0; };
        guest::SearchOutput output(64, take, is_file);
        for (const std::string_view piece : pieces)
            if (!output.feed(piece))
                break;
        return seen;
    };
    std::vector<std::string_view> pieces;
    for (const auto piece : fuzz::cut(text, seed))
        pieces.push_back(piece);
    require(read(pieces) == read({text}), "matches are the same however they come");
}

/// A result is JSON whatever it tells.
void check_texts(std::string_view text) {
    guest::JsonObject object;
    object.text("text", text);
    require(fuzz::read_document(std::move(object).close()).accepted, "a repaired text is JSON");
    const std::size_t half = text.size() / 2;
    const guest::TextDiff diff = guest::unified_diff("f", "f", text.substr(0, half), text.substr(half), 4096);
    require(diff.text.size() <= 4096 + 64, "a diff is bounded");
    require(diff.text.empty() == (text.substr(0, half) == text.substr(half)), "a diff is of what differs");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const auto seed = input.byte();
    check_arguments(input.rest());
    check_glob(input.rest());
    check_output(input.rest(), seed);
    check_texts(input.rest());
    return 0;
}
