#include "http/api/preview_form.hpp"

#include <algorithm>

#include "core/plain/preview_limits.hpp"

namespace atl::http {
namespace {

constexpr std::size_t k_max_access_bytes = 16;

std::string what_ports_must_be() {
    return "1 to " + std::to_string(base::k_max_preview_ports) + " different ports from 1 to 65535";
}

std::optional<std::vector<std::uint16_t>> read_ports(ObjectReader& preview) {
    const Json* const value = preview.any("ports");
    if (value == nullptr)
        return std::nullopt;
    if (!value->is_array() || value->empty() || value->size() > base::k_max_preview_ports) {
        preview.fail("ports", what_ports_must_be());
        return std::nullopt;
    }
    std::vector<std::uint16_t> ports;
    for (const Json& item : *value) {
        const auto port = item.is_number_unsigned() ? item.get<std::uint64_t>() : 0;
        const auto known = static_cast<std::uint16_t>(port);
        if (port == 0 || port > static_cast<std::uint64_t>(k_port_range.most) ||
            std::find(ports.begin(), ports.end(), known) != ports.end()) {
            preview.fail("ports", what_ports_must_be());
            return std::nullopt;
        }
        if (base::is_reserved_port(known)) {
            preview.fail("ports",
                         "ports that the server does not hold itself: " + std::to_string(known) + " is one");
            return std::nullopt;
        }
        ports.push_back(known);
    }
    return ports;
}

Schema ports_schema() {
    Schema ports = list_of(integer(k_port_range));
    ports["minItems"] = 1;
    ports["maxItems"] = base::k_max_preview_ports;
    ports["uniqueItems"] = true;
    return ports;
}

}  // namespace

sandbox::PreviewChanges read_preview(ObjectReader& reader) {
    sandbox::PreviewChanges changes;
    const Json* const value = reader.object("preview");
    if (value == nullptr)
        return changes;
    ObjectReader preview(*value, "preview.");
    if (const auto access = preview.string("access", k_max_access_bytes)) {
        changes.access = sandbox::parse_access(*access);
        if (!changes.access)
            preview.fail("access", "\"public\" or \"private\"");
    }
    changes.wake = preview.boolean("wake");
    changes.ports = read_ports(preview);
    if (auto finished = preview.finish(); finished.has_error())
        reader.fail(finished.error());
    return changes;
}

void write_preview(base::JsonWriter& json, const sandbox::PreviewSettings& preview) {
    json.begin_object();
    json.key("access").string(to_string(preview.access));
    json.key("wake").raw(preview.wakes() ? "true" : "false");
    json.key("ports").begin_array();
    for (const std::uint16_t port : preview.ports)
        json.number(port);
    json.end_array().end_object();
}

void add_preview_schemas(Schema& out) {
    constexpr std::string_view k_ports =
        "The TCP ports inside the sandbox that are shown; the first is that of the address without a port. "
        "Bearers of a token of scope `preview` see every port.";
    const Property access{"access",
                          "public: to everyone who knows the address. private: to bearers of a token of "
                          "scope `preview`.",
                          one_of({"public", "private"})};
    out["PreviewChanges"] = described(
        object(Members::optional,
               {access,
                {"wake",
                 "Whether a request wakes the conversation when it is paused; unless it is set, as a private "
                 "preview does and a public one does not.",
                 flag()},
                {"ports", std::string(k_ports), ports_schema()}}),
        "What the preview of a sandbox is to show, and to whom. What is not named stays; of a new one: "
        "public, the ports of the server's `--default-preview-ports` (5173).");
    out["PreviewSettings"] =
        described(object(Members::required,
                         {access,
                          {"wake", "Whether a request wakes the conversation when it is paused.", flag()},
                          {"ports", std::string(k_ports), ports_schema()}}),
                  "What the preview of a sandbox shows, and to whom.");
}

}  // namespace atl::http
