#include "http/egress/egress_service.hpp"

#include <utility>

namespace atl::http {

void EgressService::open(const std::string& sandbox_id, const sandbox::EgressSettings& settings,
                         sandbox::InnerListener listener) {
    close(sandbox_id);
    auto door = std::make_shared<EgressDoor>(sandbox_id, parts_, settings);
    server_.open_inner(std::move(listener.socket.fd), door->services(), std::move(listener.count));
    doors_[sandbox_id] = {std::move(door), std::move(listener.socket.counted)};
}

void EgressService::change(const std::string& sandbox_id, const sandbox::EgressSettings& settings) {
    if (const auto found = doors_.find(sandbox_id); found != doors_.end())
        found->second.door->change(settings);
}

void EgressService::close(const std::string& sandbox_id) {
    const auto closed = doors_.extract(sandbox_id);
    if (!closed.empty())
        server_.close_inner(*closed.mapped().door->services());
}

}  // namespace atl::http
