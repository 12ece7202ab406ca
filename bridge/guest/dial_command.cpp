#include "bridge/guest/dial_command.hpp"

#include <optional>

#include "bridge/json_scan.hpp"
#include "core/plain/preview_limits.hpp"

namespace atl::guest {
namespace {

struct DialVisitor : bridge::ObjectVisitor {
    std::optional<std::uint16_t> port;

    bool on_unsigned(const std::string& key, std::uint64_t value) {
        if (key != "port")
            return true;
        if (value == 0 || value > 0xFFFF || port)
            return false;
        port = static_cast<std::uint16_t>(value);
        return true;
    }
};

}  // namespace

void DialCommand::begin(Connection& connection, Command& command) {
    DialVisitor visitor;
    // Nothing nests in it.
    if (bridge::scan_object(command.line, 1, visitor) != bridge::Scan::complete || !visitor.port)
        return refuse(connection, "`port` is not a port", bridge::refusal::invalid);
    if (base::is_reserved_port(*visitor.port))
        return refuse(connection, "this port is the server's own", bridge::refusal::invalid);
    relays_.emplace_back(loop_, connection, *visitor.port);
    const auto relay = std::prev(relays_.end());
    connection.follow(&*relay);
    relay->start([this, relay] { relays_.erase(relay); });
}

}  // namespace atl::guest
