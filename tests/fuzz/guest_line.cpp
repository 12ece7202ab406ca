// The input of the guest: commands, the agent's choice, and the output of an agent, cut into lines.
#include <algorithm>

#include "bridge/agents/line_splitter.hpp"
#include "bridge/guest/command.hpp"
#include "core/base/limits.hpp"
#include "tests/fuzz/support.hpp"

using namespace atl;
using fuzz::require;

namespace {

void check_command(std::string_view line) {
    const auto command = guest::parse_command(line);
    const auto document = fuzz::read_document(line);
    const auto& value = document.value;
    if (command) {
        require(document.accepted && value.is_object(), "a command is an object");
        require(document.depth <= base::k_max_event_depth + 1, "a command is no deeper than allowed");
        require(!command->name.empty() && command->line == line, "a command has a name and its line");
    }
    const bool plain = document.accepted && value.is_object() && !document.repeats_a_name &&
                       document.depth <= base::k_max_event_depth + 1;
    if (!plain)
        return;
    const auto text = [&](const char* name) {
        const auto member = value.find(name);
        return member != value.end() && member->is_string() ? member->get<std::string>() : std::string();
    };
    require(command.has_value() == !text("cmd").empty(), "a command is what has a `cmd`");
    require(guest::event_name(line) == text("ev"), "an event's name is its `ev`");
    if (!command)
        return;
    require(
        command->name == text("cmd") && command->turn == text("turn") && command->prompt == text("prompt"),
        "a command's members are the line's");
    const auto agent = value.find("agent");
    const bool has_agent = agent != value.end() && agent->is_object();
    require(has_agent == !command->agent.empty(), "the agent is there if it is an object");
    if (has_agent)
        require(fuzz::read_document(command->agent).value == *agent, "the agent is the line's");
}

void check_agent(std::string_view text) {
    const auto choice = guest::parse_agent(text);
    const auto document = fuzz::read_document(text);
    if (choice)
        require(document.accepted && document.value.is_object() && !choice->kind.empty(),
                "a choice has a kind");
    if (choice && !document.repeats_a_name) {
        const auto argv = document.value.find("argv");
        const auto listed =
            argv != document.value.end() && argv->is_array() ? *argv : nlohmann::json::array();
        require(nlohmann::json(choice->argv) == listed, "the arguments are the text's");
        const auto resume = document.value.find("resume");
        const bool is_told = resume != document.value.end() && resume->is_object();
        require(is_told == !choice->resume.empty(), "an agent is told an object or nothing");
        if (is_told)
            require(fuzz::read_document(choice->resume).value == *resume, "what it is told is the text's");
    }
}

struct Lines final : guest::LineSplitter::Sink {
    std::vector<std::string> calls;
    void on_line(std::string_view line) override {
        require(line.size() <= base::k_max_event_line_bytes, "a line is within its bound");
        calls.emplace_back(line);
    }
    void on_long_line(std::string_view head) override {
        require(!head.empty(), "a long line has a beginning");
        calls.emplace_back("\nlong");
    }
    void on_long_line_end(std::string_view outline) override {
        require(outline.size() <= guest::k_max_outline_bytes, "an outline is bounded");
        calls.emplace_back("\noutline").append(outline);
    }
};

// Each 0x01 becomes a quarter of the bound, so that short inputs reach it.
std::string grown(std::string_view text) {
    constexpr std::size_t k_most_runs = 6;
    std::string out;
    std::size_t runs = 0;
    for (const char c : text)
        if (c == 1 && ++runs <= k_most_runs)
            out.append(base::k_max_event_line_bytes / 4, 'x');
        else
            out.push_back(c);
    return out;
}

void check_splitter(std::string_view text, std::uint8_t seed) {
    std::vector<std::string> expected;
    for (auto left = text; !left.empty();) {
        const auto end = left.find('\n');
        const auto line = left.substr(0, end);
        if (line.size() > base::k_max_event_line_bytes) {
            expected.emplace_back("\nlong");
            guest::JsonOutline outline;
            outline.feed(line);
            if (end != std::string_view::npos)
                expected.emplace_back("\noutline").append(outline.text());
        } else if (end != std::string_view::npos) {
            expected.emplace_back(line);
        }
        left.remove_prefix(end == std::string_view::npos ? left.size() : end + 1);
    }
    Lines lines;
    guest::LineSplitter splitter(lines);
    // 0x07, 0x27, …: as one piece, however long it has grown.
    for (const auto piece : fuzz::cut(text, seed % 32U == 7 ? 0 : seed))
        splitter.feed(piece);
    require(lines.calls == expected, "lines are the same however they come");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const auto seed = input.byte();
    check_command(input.rest());
    check_agent(input.rest());
    // The bound is a megabyte: reaching it takes long, so not every input does.
    check_splitter(seed % 16U == 7 ? grown(input.rest()) : std::string(input.rest()), seed);
    return 0;
}
