#include "http/proxy/open_previews.hpp"

#include <algorithm>
#include <utility>

namespace atl::http {

class OpenPreviews::Followed final : public Relay {
  public:
    Followed(OpenPreviews& all, Visit visit, std::unique_ptr<Exchange> inner)
        : all_(all), visit_(std::move(visit)), inner_(std::move(inner)) {}
    ~Followed() override { leave(); }

    base::Task<Outcome> async_run(Connection& connection, RequestParser& request,
                                  const ServerState& state) override {
        place_ = all_.open_.emplace(visit_.sandbox_id, Open{&visit_, &connection, inner_.get()});
        is_open_ = true;
        Outcome outcome = co_await inner_->async_run(connection, request, state);
        leave();
        co_return outcome;
    }

  private:
    void leave() {
        if (std::exchange(is_open_, false))
            all_.open_.erase(place_);
    }

    OpenPreviews& all_;
    Visit visit_;
    std::unique_ptr<Exchange> inner_;
    Place place_;
    bool is_open_ = false;
};

std::unique_ptr<Relay> OpenPreviews::follow(Visit visit, std::unique_ptr<Exchange> inner) {
    return std::make_unique<Followed>(*this, std::move(visit), std::move(inner));
}

// Nothing is resumed from inside cut_at(): entries stay where they are.
void OpenPreviews::end_unallowed(const std::string& sandbox_id, const sandbox::PreviewSettings& now) {
    const auto [first, last] = open_.equal_range(sandbox_id);
    for (auto at = first; at != last; ++at) {
        const auto& [visit, connection, exchange] = at->second;
        if (!visit->has_pass && (now.is_private() || !now.lists(visit->port)))
            connection->cut_at(connection->now());
    }
}

void OpenPreviews::refuse_waiting(const std::string& sandbox_id, const base::Error& why) {
    const auto [first, last] = open_.equal_range(sandbox_id);
    for (auto at = first; at != last; ++at)
        at->second.exchange->refuse_waiting(why);
}

bool OpenPreviews::is_awaited(const std::string& sandbox_id) const {
    const auto [first, last] = open_.equal_range(sandbox_id);
    return std::any_of(first, last, [](const auto& open) {
        return open.second.visit->is_activity && open.second.exchange->is_waiting();
    });
}

}  // namespace atl::http
