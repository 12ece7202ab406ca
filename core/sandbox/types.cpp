#include "core/sandbox/types.hpp"

namespace atl::sandbox {

Limits LimitChanges::applied_to(Limits limits) const noexcept {
    for (const LimitEntry& limit : k_limit_table)
        limits.*limit.value = (this->*limit.change).value_or(limits.*limit.value);
    return limits;
}

LimitChanges default_ceilings() noexcept {
    LimitChanges ceilings;
    for (const LimitEntry& limit : k_limit_table)
        if (limit.ceiling_for == LimitEntry::Keys::all)
            ceilings.*limit.change = limit.ceiling;
    return ceilings;
}

const std::string& EgressSettings::user_of(const std::string& rule) const noexcept {
    const auto& rules = of_user.rules;
    return std::find(rules.begin(), rules.end(), rule) == rules.end() ? user_id : of_user.user_id;
}

void EgressSettings::keep_user_rules(const EgressSettings& before) {
    if (!user_id.empty())
        return;
    const auto keep = [&](const std::string& rule) {
        if (const std::string& user = before.user_of(rule); !user.empty()) {
            of_user.user_id = user;
            of_user.rules.push_back(rule);
        }
    };
    const auto has = [](const auto& all, const auto& one) {
        return std::find(all.begin(), all.end(), one) != all.end();
    };
    const auto headers_of = [](const EgressSettings& settings, const std::string& rule) {
        const auto host = std::find_if(settings.hosts.begin(), settings.hosts.end(),
                                       [&](const EgressRoute& each) { return each.name == rule; });
        return host == settings.hosts.end() ? std::optional<EgressRoute>() : *host;
    };
    for (const std::string& rule : allow)
        if (has(before.allow, rule) && headers_of(*this, rule) == headers_of(before, rule))
            keep(rule);
    for (const EgressRoute& route : routes)
        if (has(before.routes, route))
            keep('/' + route.name);
}

void EgressSettings::add_rule(const std::string& rule, const std::string& by_user_id) {
    const bool is_new = std::find(allow.begin(), allow.end(), rule) == allow.end();
    if (is_new)
        allow.push_back(rule);
    if (by_user_id.empty())
        std::erase(of_user.rules, rule);
    else if (is_new && user_id.empty()) {
        of_user.user_id = by_user_id;
        of_user.rules.push_back(rule);
    }
}

std::string_view to_string(NetworkMode mode) noexcept {
    switch (mode) {
        case NetworkMode::none:
            return "none";
        case NetworkMode::host:
            return "host";
        case NetworkMode::egress:
            return "egress";
    }
    return "none";
}

std::string_view to_string(PreviewAccess access) noexcept {
    return access == PreviewAccess::everyone ? "public" : "private";
}

std::string_view to_string(Status status) noexcept {
    switch (status) {
        case Status::pending:
            return "pending";
        case Status::ready:
            return "ready";
        case Status::frozen:
            return "frozen";
        case Status::failed:
            return "failed";
        case Status::terminated:
            return "terminated";
    }
    return "failed";
}

std::string_view to_string(ExitClass exit_class) noexcept {
    switch (exit_class) {
        case ExitClass::exited:
            return "exited";
        case ExitClass::signalled:
            return "signalled";
        case ExitClass::oom:
            return "oom";
        case ExitClass::disk_limit:
            return "disk_limit";
        case ExitClass::stopped:
            return "stopped";
        case ExitClass::killed:
            return "killed";
        case ExitClass::setup_failed:
            return "setup_failed";
        case ExitClass::lost:
            return "lost";
    }
    return "lost";
}

base::ShareHolder user_of(const Record& record) {
    if (record.holder && record.holder->is_user())
        return *record.holder;
    return base::ShareHolder::owner(record.user_id, record.id);
}

std::optional<NetworkMode> parse_network(std::string_view text) noexcept {
    for (const NetworkMode mode : {NetworkMode::none, NetworkMode::host, NetworkMode::egress}) {
        if (text == to_string(mode))
            return mode;
    }
    return std::nullopt;
}

std::optional<PreviewAccess> parse_access(std::string_view text) noexcept {
    if (text == "public")
        return PreviewAccess::everyone;
    if (text == "private")
        return PreviewAccess::token_bearers;
    return std::nullopt;
}

}  // namespace atl::sandbox
