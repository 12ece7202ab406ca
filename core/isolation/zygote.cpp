#include "core/isolation/zygote.hpp"

#include <utility>

#include "core/isolation/zygote/request.hpp"

namespace atl::isolation {

base::Result<Zygote> Zygote::start(const std::filesystem::path& program, int group_fd,
                                   const std::vector<int>& join_fds) {
    auto process = WaitingProcess::start(program, {std::to_string(join_fds.size())}, join_fds, group_fd);
    if (!process)
        return process.error();
    return Zygote(std::move(*process));
}

base::Result<Spawned> Zygote::become(const std::string& program, const std::vector<std::string>& args,
                                     const ChildPlan& plan) {
    const std::string text = encode({program, args, plan});
    std::vector<int> fds = plan.fds;
    if (plan.mount_namespace >= 0)
        fds.push_back(plan.mount_namespace);
    if (fds.size() > k_max_zygote_fds || text.size() > k_max_zygote_message_bytes)
        return base::Error(base::Errc::sandbox_failed, "the paths of this sandbox are too long");
    if (const int error = process_.send(text, fds); error != 0)
        return base::Error(base::Errc::sandbox_failed,
                           base::errno_text("the process that was to become a sandbox is gone", error));
    return process_.release();
}

}  // namespace atl::isolation
