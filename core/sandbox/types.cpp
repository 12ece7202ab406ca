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
