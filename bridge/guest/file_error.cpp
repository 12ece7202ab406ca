#include "bridge/guest/file_error.hpp"

#include <errno.h>
#include <string.h>

#include "bridge/protocol.hpp"

namespace atl::guest {

std::string_view file_refusal(int error_number) {
    using namespace bridge::refusal;
    switch (error_number) {
        case ENOENT:
            return file_not_found;
        case EEXIST:
            return already_exists;
        case EISDIR:
            return is_directory;
        case ENOTDIR:
            return not_a_directory;
        case ENXIO:
        case ENODEV:
            return not_a_file;
        case ENOTEMPTY:
            return directory_not_empty;
        case EXDEV:
            return outside_workspace;
        case EINVAL:
        case ELOOP:
        case ENAMETOOLONG:
            return invalid_path;
        case EACCES:
        case EPERM:
        case EROFS:
            return permission_denied;
        case EAGAIN:
        case ETXTBSY:
        case EBUSY:
        case ESTALE:
            return file_changed;
        case ENOSPC:
        case EDQUOT:
        case EFBIG:
            return disk_full;
        case EMFILE:
        case ENFILE:
        case ENOMEM:
            return busy;
        default:
            return {};
    }
}

CallEnd file_error(int error_number, std::string_view name) {
    const char* const text = strerrordesc_np(error_number);
    std::string sentence(name.empty() ? std::string_view("the workspace") : name);
    sentence += ": ";
    sentence += error_number == EXDEV ? "the path leads outside the workspace" : text;
    return {std::move(sentence), file_refusal(error_number)};
}

}  // namespace atl::guest
