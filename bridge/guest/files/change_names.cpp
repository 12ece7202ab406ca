// mkdir, move, remove: what changes names and no content.
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>

#include "bridge/guest/files/file_entry.hpp"
#include "bridge/guest/files/file_job.hpp"
#include "bridge/guest/files/folder.hpp"
#include "bridge/protocol.hpp"
#include "core/plain/tree_remover.hpp"

namespace atl::guest {
namespace {

using base::Beneath;
using base::LastLink;

constexpr std::size_t k_removed_at_once = 200;

enum class Created : bool { no, yes };

CallEnd reply_entry(Call& call, const FileJob& job, const std::string& path, Created created) {
    const base::UniqueFd there = job.root.look(path, LastLink::itself);
    struct stat about {};
    if (!there || fstat(there.get(), &about) != 0)
        return refuse_errno(path);
    const std::string told = created == Created::yes ? "\"created\":true," : "\"created\":false,";
    call.reply(told + entry_member(path, about, there.get()));
    return {};
}

/// True if the path is that of a directory, also through a link.
bool is_directory_there(const FileJob& job, const std::string& path) {
    const base::UniqueFd there = job.root.look(path, LastLink::followed);
    struct stat about {};
    return there && fstat(there.get(), &about) == 0 && S_ISDIR(about.st_mode);
}

/// Removes `from` where it is another hard link of the file at `to`: rename(2) then does nothing.
void remove_other_name(const Beneath::Place& from, const Beneath::Place& to) {
    struct stat source {};
    struct stat target {};
    struct stat source_folder {};
    struct stat target_folder {};
    if (fstatat(from.directory.get(), from.name.c_str(), &source, AT_SYMLINK_NOFOLLOW) != 0 ||
        fstatat(to.directory.get(), to.name.c_str(), &target, AT_SYMLINK_NOFOLLOW) != 0 ||
        fstat(from.directory.get(), &source_folder) != 0 || fstat(to.directory.get(), &target_folder) != 0)
        return;
    const bool is_one_name = from.name == to.name && is_same_file(source_folder, target_folder);
    if (is_same_file(source, target) && !is_one_name)
        unlinkat(from.directory.get(), from.name.c_str(), 0);
}

}  // namespace

Task<CallEnd> make_directory(Call& call, const FileJob& job) {
    const std::string& path = job.request.path;
    if (is_directory_there(job, path))
        co_return reply_entry(call, job, path, Created::no);
    base::NewParents made(job.root);
    const std::optional<Beneath::Place> place = job.root.make_place(path, &made);
    if (!place)
        co_return refuse_errno(path);
    if (mkdirat(place->directory.get(), place->name.c_str(), 0777) != 0) {
        const int error_number = errno;
        // Somebody else may have made it meanwhile.
        if (error_number == EEXIST && is_directory_there(job, path))
            co_return reply_entry(call, job, path, Created::no);
        co_return refuse_errno(path, error_number);
    }
    made.keep();
    co_return reply_entry(call, job, path, Created::yes);
}

Task<CallEnd> move_file(Call& call, const FileJob& job) {
    const FileRequest& request = job.request;
    const std::optional<Beneath::Place> from = job.root.place(request.path);
    struct stat about {};
    if (!from || fstatat(from->directory.get(), from->name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0)
        co_return refuse_errno(request.path);
    if (CallEnd end = check_slashes(request, about); !end.is_good())
        co_return end;
    if (CallEnd end = check_conditions(request, entity_tag(about)); !end.is_good())
        co_return end;
    base::NewParents made(job.root);
    const std::optional<Beneath::Place> to = job.root.make_place(request.to, &made);
    const unsigned flags = request.overwrite ? 0 : RENAME_NOREPLACE;
    if (!to || renameat2(from->directory.get(), from->name.c_str(), to->directory.get(), to->name.c_str(),
                         flags) != 0)
        co_return refuse_errno(request.to);
    made.keep();
    remove_other_name(*from, *to);
    co_return reply_entry(call, job, request.to, Created::no);
}

Task<CallEnd> remove_file(Call& call, const FileJob& job) {
    const std::string& path = job.request.path;
    const std::optional<Beneath::Place> place = job.root.place(path);
    struct stat about {};
    if (!place || fstatat(place->directory.get(), place->name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0)
        co_return refuse_errno(path);
    if (CallEnd end = check_slashes(job.request, about); !end.is_good())
        co_return end;
    if (CallEnd end = check_conditions(job.request, entity_tag(about)); !end.is_good())
        co_return end;
    if (!S_ISDIR(about.st_mode) || !job.request.recursive) {
        const int flags = S_ISDIR(about.st_mode) ? AT_REMOVEDIR : 0;
        if (unlinkat(place->directory.get(), place->name.c_str(), flags) != 0)
            co_return refuse_errno(path);
        co_return CallEnd{};
    }
    base::TreeRemover remover;
    const Call::Progress progress(call, [&remover] { return entries_and_bytes(remover.removed(), 0); });
    remover.begin(place->directory.get(), place->name);
    while (remover.step(k_removed_at_once))
        co_await call.turn();
    if (remover.error_number() != 0)
        co_return refuse_errno(path, remover.error_number());
    co_return CallEnd{};
}

}  // namespace atl::guest
