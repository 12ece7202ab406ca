#include "core/conversation/event_words.hpp"

#include "core/base/json_writer.hpp"

namespace atl::conversation {
namespace {

/// The text of an object with the members that `write` adds.
template <class Write>
std::string object(Write write) {
    std::string text;
    base::JsonWriter json(text);
    json.begin_object();
    write(json);
    json.end_object();
    return text;
}

}  // namespace

std::string session_data(const Record& record) {
    return object([&](base::JsonWriter& json) {
        json.key("agent").string(record.agent).key("sandboxId").string(record.sandbox_id);
    });
}

std::string ready_data(std::uint32_t generation) {
    return object([&](base::JsonWriter& json) { json.key("generation").number(generation); });
}

std::string resumed_data(std::uint32_t generation, PauseMode mode) {
    return object([&](base::JsonWriter& json) {
        json.key("generation").number(generation).key("mode").string(to_string(mode));
    });
}

std::string paused_data(const action::LogSandboxPaused& paused) {
    return object([&](base::JsonWriter& json) {
        json.key("detail").string(paused.detail);
        json.key("mode").string(to_string(paused.mode)).key("reason").string(to_string(paused.reason));
    });
}

std::string exit_data(const sandbox::Exit& exit) {
    return object([&](base::JsonWriter& json) {
        json.key("class").string(to_string(exit.exit_class));
        json.key("code").raw(std::to_string(exit.code)).key("detail").string(exit.detail);
        if (exit.limit_bytes)
            json.key("limitBytes").number(*exit.limit_bytes);
        if (exit.peak_bytes)
            json.key("peakBytes").number(*exit.peak_bytes);
    });
}

std::string warning_data(std::string_view resource, std::uint64_t used, std::uint64_t limit) {
    return object([&](base::JsonWriter& json) {
        json.key("limit").number(limit).key("resource").string(resource).key("used").number(used);
    });
}

std::string error_data(std::string_view code, std::string_view message) {
    return object(
        [&](base::JsonWriter& json) { json.key("code").string(code).key("message").string(message); });
}

}  // namespace atl::conversation
