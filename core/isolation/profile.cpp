#include "core/isolation/profile.hpp"

#include <algorithm>
#include <string_view>

#include "core/base/limits.hpp"

namespace atl::isolation {
namespace {

using Arguments = std::vector<std::string>;

template <class... Words>
void add(Arguments& out, const Words&... words) {
    (out.emplace_back(words), ...);
}

void add_namespaces(Arguments& out, sandbox::NetworkMode network) {
    add(out, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup");
    if (sandbox::has_own_net(network))
        add(out, "--unshare-net");
    add(out, "--disable-userns", "--cap-drop", "ALL", "--new-session", "--die-with-parent", "--as-pid-1");
    const std::string uid = std::to_string(base::k_inner_uid);
    add(out, "--uid", uid, "--gid", uid, "--hostname", k_inner_hostname);
}

void add_environment(Arguments& out, const sandbox::Environment& env) {
    add(out, "--clearenv");
    for (const auto& [name, value] : env)
        add(out, "--setenv", name, value);
}

void add_programs(Arguments& out, const HostLayout& layout, const ProfileSources& sources) {
    add(out, "--ro-bind", sources.host_root + "/usr", "/usr");
    for (const auto& path : layout.hidden_folders)
        add(out, "--tmpfs", path, "--remount-ro", path);
    for (const auto& path : layout.hidden_files)
        add(out, "--ro-bind", sources.dev.empty() ? "/dev/null" : sources.dev + "/null", path);
    for (const auto& [name, target] : layout.links)
        add(out, "--symlink", target, name);
    for (const auto& path : layout.folders)
        add(out, "--ro-bind", sources.host_root + path, path);
}

void add_etc(Arguments& out, const HostLayout& layout, const ProfileSources& sources,
             const sandbox::LaunchSpec& spec) {
    add(out, "--ro-bind", sources.etc, "/etc");
    for (const auto& path : layout.etc_folders)
        add(out, "--ro-bind", sources.host_root + path, path);
    for (const auto& path : layout.etc_files)
        add(out, "--ro-bind", sources.host_root + path, path);
    if (!sandbox::has_own_net(spec.network) && !layout.resolv_conf.empty())
        add(out, "--ro-bind", layout.resolv_conf, "/etc/resolv.conf");
    if (!spec.issuer.empty() && layout.shows_bundle)
        add(out, "--perms", "0444", "--ro-bind-data", std::to_string(k_bundle_fd), layout.bundle);
}

void add_tmpfs(Arguments& out, std::size_t limit_bytes, const char* permissions, const char* path) {
    add(out, "--size", std::to_string(limit_bytes), "--perms", permissions, "--tmpfs", path);
}

void add_devices(Arguments& out, const ProfileSources& sources) {
    if (sources.dev.empty())
        add(out, "--dev", "/dev");
    else
        add(out, "--dev-bind", sources.dev, "/dev");
    if (!sources.ptys.empty())
        add(out, "--dev-bind", sources.ptys, "/dev/pts");
    add_tmpfs(out, base::k_shm_bytes, "1777", "/dev/shm");
    // bwrap makes /dev on a writable tmpfs without a size of its own.
    if (sources.dev.empty())
        add(out, "--remount-ro", "/dev");
}

void add_kernel_mounts(Arguments& out, const HostLayout& layout, const ProfileSources& sources,
                       const sandbox::Limits& limits) {
    add(out, "--proc", "/proc");
    for (const auto& path : layout.proc_folders)
        add(out, "--ro-bind", sources.masks + "/" + k_empty_folder, path);
    for (const auto& path : layout.proc_files)
        add(out, "--ro-bind", sources.masks + "/" + k_empty_file, path);
    add_devices(out, sources);
    add_tmpfs(out, std::size_t{limits.tmp_mb} * 1024 * 1024, "1777", "/tmp");
    add_tmpfs(out, base::k_run_bytes, "0755", "/run");
}

// Variables name it by a path that does not depend on the host. What looks at the host's path finds it, too.
void add_bundle(Arguments& out, const HostLayout& layout, const sandbox::LaunchSpec& spec) {
    if (spec.issuer.empty())
        return;
    if (layout.shows_bundle)
        add(out, "--symlink", layout.bundle, base::k_inner_bundle);
    else
        add(out, "--perms", "0444", "--ro-bind-data", std::to_string(k_bundle_fd), base::k_inner_bundle);
}

void add_own_mounts(Arguments& out, const HostLayout& layout, const sandbox::LaunchSpec& spec,
                    const ProfileSources& sources) {
    if (sources.workspace.empty())
        add(out, "--dir", k_inner_workspace);
    else
        add(out, "--bind", sources.workspace, k_inner_workspace);
    // ASH_AGENT_DIR names it in every sandbox.
    if (sources.agent_dir.empty())
        add(out, "--dir", k_inner_agent_dir);
    else
        add(out, "--ro-bind", sources.agent_dir, k_inner_agent_dir);
    add(out, "--dir", "/atoll", "--ro-bind", sources.guest, k_inner_guest);
    add_bundle(out, layout, spec);
    if (!sources.agent_program.empty())
        add(out, "--ro-bind", sources.agent_program, base::k_inner_agent);
    // Read-only, so that no process inside can replace the socket by a link to another socket.
    add(out, "--ro-bind", sources.bridge_dir, k_inner_bridge_dir);
    add(out, "--remount-ro", "/", "--chdir", k_inner_workspace);
}

std::size_t operand_count(std::string_view option) {
    if (option.starts_with("--unshare-") || option == "--disable-userns" || option == "--new-session" ||
        option == "--die-with-parent" || option == "--as-pid-1" || option == "--clearenv")
        return 0;
    const bool two = option == "--setenv" || option == "--ro-bind" || option == "--bind" ||
                     option == "--dev-bind" || option == "--symlink" || option == "--ro-bind-data";
    return two ? 2 : 1;
}

/// Belongs to the mount that follows it.
bool is_modifier(std::string_view option) {
    return option == "--size" || option == "--perms";
}

}  // namespace

Arguments profile_arguments(const HostLayout& layout, const sandbox::LaunchSpec& spec,
                            const ProfileSources& sources) {
    Arguments out;
    add_namespaces(out, spec.network);
    add_environment(out, spec.env);
    add_programs(out, layout, sources);
    add_etc(out, layout, sources, spec);
    add_kernel_mounts(out, layout, sources, spec.limits);
    add_own_mounts(out, layout, spec, sources);
    add(out, "--json-status-fd", std::to_string(k_status_fd));
    // The later filter is asked first, and of two equally strict answers the first counts.
    add(out, "--add-seccomp-fd", std::to_string(k_seccomp_calls_fd));
    add(out, "--add-seccomp-fd", std::to_string(k_seccomp_arguments_fd));
    return out;
}

Arguments command_line() {
    return {"--args", std::to_string(k_arguments_fd), "--", k_inner_guest};
}

std::string profile_text(const Arguments& arguments) {
    std::string text;
    for (std::size_t at = 0; at < arguments.size();) {
        const std::string& option = arguments[at];
        const std::size_t end = std::min(at + 1 + operand_count(option), arguments.size());
        text += option;
        while (++at < end)
            text += ' ' + arguments[at];
        text += is_modifier(option) ? ' ' : '\n';
    }
    return text;
}

}  // namespace atl::isolation
