#include "http/egress/egress_service.hpp"

#include <utility>

#include "http/egress/egress_questions.hpp"

namespace atl::http {

void EgressService::open(const std::string& sandbox_id, const sandbox::EgressSettings& settings,
                         sandbox::InnerListener listener) {
    close(sandbox_id);
    auto door = std::make_shared<EgressDoor>(sandbox_id, parts_, settings);
    server_.open_inner(std::move(listener.socket.fd), door->services(),
                       access_of(sandbox_id, std::move(listener.count)));
    doors_[sandbox_id] = {std::move(door), std::move(listener.socket.counted)};
}

void EgressService::open_routes(const std::string& sandbox_id, const sandbox::EgressSettings& settings,
                                const std::vector<sandbox::EgressRoute>& defaults,
                                sandbox::InnerListener listener) {
    const auto found = doors_.find(sandbox_id);
    if (found == doors_.end() || found->second.routes != nullptr)
        return;
    Opened& opened = found->second;
    opened.routes = std::make_shared<RouteDoor>(sandbox_id, parts_, opened.door, defaults, settings);
    opened.routes_counted = std::move(listener.socket.counted);
    server_.open_inner(std::move(listener.socket.fd), opened.routes->services(),
                       access_of(sandbox_id, std::move(listener.count)));
}

InnerAccess EgressService::access_of(const std::string& sandbox_id,
                                     std::function<std::shared_ptr<const void>()> count) const {
    using Held = std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>;
    const std::shared_ptr<EgressBounds> bounds = parts_.bounds;
    InnerAccess access;
    access.enter = [bounds, sandbox_id, count = std::move(count)] {
        auto place = bounds ? bounds->enter(sandbox_id)
                            : base::Result<std::shared_ptr<const void>>(std::shared_ptr<const void>());
        if (place)
            place = std::shared_ptr<const void>(std::make_shared<Held>(std::move(*place), count()));
        return place;
    };
    if (bounds)
        access.pause = [bounds, sandbox_id] { return bounds->pause(sandbox_id); };
    return access;
}

void EgressService::change(const std::string& sandbox_id, const sandbox::EgressSettings& settings) {
    const auto found = doors_.find(sandbox_id);
    if (found == doors_.end())
        return;
    found->second.door->change(settings);
    if (found->second.routes != nullptr)
        found->second.routes->change(settings);
}

void EgressService::close(const std::string& sandbox_id) {
    const auto closed = doors_.extract(sandbox_id);
    if (closed.empty())
        return;
    const Opened& opened = closed.mapped();
    server_.close_inner(*opened.door->services());
    if (parts_.questions != nullptr)
        parts_.questions->end(sandbox_id);
    if (opened.routes != nullptr)
        server_.close_inner(*opened.routes->services());
}

}  // namespace atl::http
