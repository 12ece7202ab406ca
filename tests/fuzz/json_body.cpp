// Bodies of requests: JSON is accepted exactly if nlohmann's document reader accepts it and it is UTF-8,
// within the depth and without a repeated name or an integer that would lose digits; the forms keep their
// promises for it.
#include <algorithm>

#include "core/plain/utf8.hpp"
#include "http/api/forms.hpp"
#include "http/wire/json_reader.hpp"
#include "http/wire/text.hpp"
#include "tests/fuzz/support.hpp"

using namespace atl;
using fuzz::require;

namespace {

void check_metadata(const std::string& text) {
    require(text.size() <= base::k_max_metadata_bytes, "metadata is within its bound");
    const auto read = http::parse_json(text);
    require(read && read->is_object(), "metadata is the text of an object");
}

void check_env(const sandbox::Environment& env) {
    require(env.size() <= base::k_max_env_entries, "variables are within their bound");
}

bool in(http::IntRange range, std::optional<std::uint32_t> value) {
    return !value || (*value >= range.least && *value <= range.most);
}

bool is_text(const std::string& text, std::size_t limit_bytes) {
    return !text.empty() && text.size() <= limit_bytes && text.find('\0') == std::string::npos;
}

void check_limits(const sandbox::Limits& limits) {
    for (const sandbox::LimitEntry& limit : sandbox::k_limit_table)
        require(in({limit.least, limit.most}, limits.*limit.value), "limits are in their ranges");
}

template <class T>
void check_refusal(const base::Result<T>& result) {
    if (result.has_error())
        require(base::is_utf8(result.error().detail()) && result.error().detail().size() < 2048,
                "a refusal is a sentence");
}

void check_forms(const http::Json& body) {
    const auto create = http::read_create_form(body);
    check_refusal(create);
    if (create) {
        require(create->agent.empty() || is_text(create->agent, http::k_max_agent_name_bytes),
                "an agent's name");
        require(!create->user_id || is_text(*create->user_id, base::k_max_user_id_bytes), "a user's name");
        check_metadata(create->metadata);
        check_env(create->env);
        check_limits(create->limits);
        require(
            in(http::k_seconds_range, create->idle_seconds) && in(http::k_seconds_range, create->ttl_seconds),
            "seconds are in their range");
        for (const auto& [name, value] : body.items())
            require(name != "content", "a field of another form is refused");
    }
    const auto patch = http::read_patch_form(body);
    check_refusal(patch);
    if (patch && patch->metadata)
        check_metadata(*patch->metadata);
    const auto sandbox = http::read_sandbox_form(body);
    check_refusal(sandbox);
    if (sandbox) {
        check_metadata(sandbox->metadata);
        check_env(sandbox->env);
        require(create.has_value() || body.contains("agent") == create.has_value(),
                "a sandbox's form is narrower");
    }
    const auto pause = http::read_pause_form(body);
    check_refusal(pause);
    require(!pause || body.empty() || (body.size() == 1 && body.contains("mode")), "a pause has a mode only");
    const auto message = http::read_message_form(body);
    check_refusal(message);
    if (message)
        require(is_text(*message, 2 * base::k_max_body_bytes) && body.size() == 1, "a message is text");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto text = fuzz::Input(data, size).rest();
    const auto body = http::parse_json(text);
    const auto document = fuzz::read_document(text);
    const bool expected = document.accepted && base::is_utf8(text) && !document.repeats_a_name &&
                          document.depth <= base::k_max_json_depth &&
                          text.find('\0') == std::string_view::npos;
    const bool loses_digits = !body && document.has_wide_double &&
                              body.error().detail().find("has more digits") != std::string::npos;
    require(body.has_value() == (expected && !loses_digits), "the verdict is nlohmann's");
    check_refusal(body);
    if (!body)
        return 0;
    require(*body == document.value, "the value is nlohmann's");
    const auto again = http::parse_json(body->dump());
    require(again && *again == *body, "it reads the same again");
    check_forms(*body);
    return 0;
}
