#include "bridge/adapters/json_value.hpp"

#include <algorithm>
#include <utility>

#include "bridge/json_scan.hpp"
#include "core/plain/guest_limits.hpp"

namespace atl::adapter {
namespace {

struct OutlineVisitor : bridge::ObjectVisitor {
    bool on_string(const std::string& key, std::string& value) {
        members[key] = std::move(value);
        return true;
    }
    bool on_bool(const std::string& key, bool value) {
        members[key] = value;
        return true;
    }
    bool on_unsigned(const std::string& key, std::uint64_t value) {
        members[key] = value;
        return true;
    }
    bool enters(const std::string& key) {
        if (key != "result" && key != "response" && key != "error")
            return false;
        entered = key;
        members[key] = Json::object();
        return true;
    }
    bool on_inner(const std::string& name, bridge::JsonKind kind, std::string_view text) {
        if (kind == bridge::k_string)
            members[entered][name] = std::string(text);
        return true;
    }
    Json members = Json::object();
    std::string entered;
};

}  // namespace

std::optional<Json> parse_line(std::string_view line) {
    // A NUL would end the text for the scan, and not for the document.
    if (line.find('\0') != std::string_view::npos)
        return std::nullopt;
    bridge::ObjectVisitor any;
    if (bridge::scan_object(line, base::k_max_event_depth, any) != bridge::Scan::complete)
        return std::nullopt;
    return Json::parse(line, nullptr, false);
}

Json parse_outline(std::string_view outline) {
    OutlineVisitor visitor;
    // The scan ends where an outline that met its bound does.
    static_cast<void>(bridge::scan_object(outline, base::k_max_event_depth, visitor));
    return std::move(visitor.members);
}

const Json* member(const Json& object, const char* name) {
    if (!object.is_object())
        return nullptr;
    const auto found = object.find(name);
    return found == object.end() ? nullptr : &*found;
}

const Json* object_of(const Json& object, const char* name) {
    const Json* const found = member(object, name);
    return found != nullptr && found->is_object() ? found : nullptr;
}

const Json* array_of(const Json& object, const char* name) {
    const Json* const found = member(object, name);
    return found != nullptr && found->is_array() ? found : nullptr;
}

std::string_view text_of(const Json& object, const char* name) {
    const Json* const found = member(object, name);
    if (found == nullptr || !found->is_string())
        return {};
    return *found->get_ptr<const std::string*>();
}

bool flag_of(const Json& object, const char* name) {
    const Json* const found = member(object, name);
    return found != nullptr && found->is_boolean() && *found->get_ptr<const bool*>();
}

std::string to_text(const Json& value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string_view head_of(std::string_view text, std::size_t limit_bytes) {
    std::size_t size = std::min(text.size(), limit_bytes);
    while (size < text.size() && size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80)
        --size;
    return text.substr(0, size);
}

}  // namespace atl::adapter
