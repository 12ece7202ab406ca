#include "core/isolation/zygote/request.hpp"

#include <charconv>

namespace atl::isolation {
namespace {

void put(std::string& out, std::string_view text) {
    out += text;
    out += '\0';
}

/// Takes the strings off a message one by one; a malformed message makes it `broken`.
class Reader {
  public:
    explicit Reader(std::string_view rest) : rest_(rest) {}

    std::string text() {
        const std::size_t end = rest_.find('\0');
        if (end == std::string_view::npos) {
            broken_ = true;
            return {};
        }
        std::string taken(rest_.substr(0, end));
        rest_.remove_prefix(end + 1);
        return taken;
    }
    std::uint64_t number() {
        const std::string digits = text();
        std::uint64_t value = 0;
        const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
        broken_ = broken_ || digits.empty() || parsed.ptr != digits.data() + digits.size();
        return broken_ ? 0 : value;
    }
    bool is_broken() const noexcept { return broken_; }
    bool is_at_end() const noexcept { return rest_.empty(); }

  private:
    std::string_view rest_;
    bool broken_ = false;
};

}  // namespace

std::string encode(const ZygoteRequest& request) {
    const ChildPlan& plan = request.plan;
    std::string out;
    put(out, request.program);
    put(out, plan.cwd);
    put(out, std::to_string(plan.uid));
    put(out, std::to_string(plan.max_file_bytes));
    put(out, std::to_string(plan.max_open_files));
    put(out, std::to_string(plan.oom_score_adj));
    put(out, std::to_string(static_cast<unsigned>(plan.priority)));
    put(out, plan.mount_namespace >= 0 ? "1" : "0");
    put(out, std::to_string(plan.fds.size()));
    put(out, std::to_string(request.args.size()));
    for (const auto& arg : request.args)
        put(out, arg);
    put(out, std::to_string(plan.staged.size()));
    for (const auto& staged : plan.staged) {
        put(out, std::to_string(static_cast<unsigned>(staged.kind)));
        put(out, staged.source);
        put(out, staged.target);
        put(out, staged.options);
    }
    return out;
}

std::optional<ZygoteRequest> decode(std::string_view message, const std::vector<int>& fds) {
    Reader in(message);
    ZygoteRequest request;
    ChildPlan& plan = request.plan;
    request.program = in.text();
    plan.cwd = in.text();
    plan.uid = static_cast<std::uint32_t>(in.number());
    plan.max_file_bytes = in.number();
    plan.max_open_files = static_cast<std::uint32_t>(in.number());
    plan.oom_score_adj = static_cast<int>(in.number());
    const std::uint64_t priority = in.number();
    plan.priority = static_cast<Priority>(priority);
    const bool has_namespace = in.number() != 0;
    const std::uint64_t fd_count = in.number();
    for (std::uint64_t left = in.number(); left > 0 && !in.is_broken(); --left)
        request.args.push_back(in.text());
    for (std::uint64_t left = in.number(); left > 0 && !in.is_broken(); --left) {
        StagedMount staged;
        const std::uint64_t kind = in.number();
        staged.kind = static_cast<StagedKind>(kind);
        staged.source = in.text();
        staged.target = in.text();
        staged.options = in.text();
        if (kind > static_cast<std::uint64_t>(StagedKind::ptys))
            return std::nullopt;
        plan.staged.push_back(std::move(staged));
    }
    if (in.is_broken() || !in.is_at_end() || priority > static_cast<std::uint64_t>(Priority::background) ||
        fds.size() != fd_count + (has_namespace ? 1U : 0U))
        return std::nullopt;
    plan.fds.assign(fds.begin(), fds.begin() + static_cast<std::ptrdiff_t>(fd_count));
    if (has_namespace)
        plan.mount_namespace = fds.back();
    return request;
}

}  // namespace atl::isolation
