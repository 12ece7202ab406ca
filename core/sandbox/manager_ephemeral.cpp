// Sandboxes for one program: nothing of them is in a store or on the disk.
#include "core/base/ids.hpp"
#include "core/sandbox/manager.hpp"
#include "core/sandbox/manager_parts.hpp"

namespace atl::sandbox {

base::Result<std::string> Manager::create_ephemeral(const Demand& demand,
                                                    std::function<void(const Exit&)> on_exit) {
    if (shutting_down_)
        return base::Error(base::Errc::shutting_down, "the server is stopping; try again in a moment");
    const auto uid = ports_.uids.acquire();
    if (!uid)
        return uid.error();
    Sandbox made;
    made.record.id = base::new_id();
    made.record.limits = demand.limits;
    made.record.holder = demand.holder;
    made.record.created_at = ports_.clock.wall_now();
    made.host_uid = *uid;
    made.is_bare = true;
    made.on_bare_exit = std::move(on_exit);
    return enlist(std::move(made)).record.id;
}

}  // namespace atl::sandbox
