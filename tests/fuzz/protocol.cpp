// Each end of the bridge reads what the other end writes, for any text: commands, text deltas, errors, and
// the repair of a program's output to UTF-8.
#include "bridge/protocol.hpp"

#include "bridge/event_line.hpp"
#include "bridge/guest/command.hpp"
#include "bridge/reply_line.hpp"
#include "core/plain/utf8.hpp"
#include "http/wire/text.hpp"
#include "tests/fuzz/support.hpp"

using namespace atl;
using fuzz::require;

namespace {

std::string repaired(const std::vector<std::string_view>& pieces) {
    base::Utf8Repair repair;
    std::string out;
    for (const auto piece : pieces)
        repair.feed(piece, out);
    repair.finish(out);
    return out;
}

std::string_view without_newline(std::string_view line) {
    require(line.ends_with('\n') && line.find('\n') == line.size() - 1, "one line, ended");
    line.remove_suffix(1);
    return line;
}

void check_deltas(std::string_view text) {
    std::string lines;
    bridge::append_text_deltas(lines, text);
    std::string joined;
    for (std::string_view left = lines; !left.empty();) {
        const auto size = left.find('\n') + 1;
        const auto event = bridge::parse_event_line(without_newline(left.substr(0, size)));
        require(event && event->name == "text_delta", "the host takes a delta");
        joined += fuzz::read_document(event->data).value["delta"].get<std::string>();
        left.remove_prefix(size);
    }
    require(joined == text, "deltas hold the whole text");
}

void check_lines(const std::string& text) {
    const auto query = bridge::encode_query("t1", text, "{\"a\":\n1}");
    const auto command = guest::parse_command(without_newline(query));
    require(command && command->name == "query" && command->turn == "t1", "the guest takes a query");
    require(command->prompt == text, "the guest reads the prompt as it was");
    const auto interrupt = bridge::encode_command("interrupt", text);
    const auto other = guest::parse_command(without_newline(interrupt));
    require(other && other->turn == text, "the guest reads the turn as it was");

    const auto refusal = bridge::parse_reply_line(without_newline(bridge::encode_refusal(text)));
    require(refusal && !refusal->ok, "the host reads a refusal");
    require(bridge::parse_agent_exit_line(without_newline(bridge::encode_agent_exit(text))).has_value(),
            "the host reads an exit");
    const auto error = bridge::encode_error_event("code", text);
    const auto event = bridge::parse_event_line(without_newline(error));
    require(event && fuzz::read_document(event->data).value["message"] == text, "the host reads an error");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const auto seed = input.byte();
    const auto text = repaired(fuzz::cut(input.rest(), seed));
    require(base::is_utf8(text), "repaired text is UTF-8");
    require(text == repaired({input.rest()}), "a repair is the same however the bytes come");
    require(!base::is_utf8(input.rest()) || text == input.rest(), "UTF-8 passes untouched");
    require(text.size() <= 3 * input.rest().size(), "a repair grows text at most threefold");
    check_lines(text);
    check_deltas(text);
    // Beyond one delta, so that cuts between characters happen. That takes long: not for every input.
    if (seed % 16U == 7)
        check_deltas(std::string(bridge::k_max_delta_bytes - seed / 16U, 'x') + text);
    return 0;
}
