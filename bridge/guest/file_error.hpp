// Turns the errno of a file operation into a refusal: a sentence for people, and a word of bridge::refusal.
#pragma once

#include <string>
#include <string_view>

#include "bridge/guest/call.hpp"

namespace atl::guest {

/// The word for `error_number` (errno(3)); empty where none fits.
std::string_view file_refusal(int error_number);

/// The end of a call that failed at the file `name`, which is as the host gave it: "src/a.c: No such file or
/// directory".
CallEnd file_error(int error_number, std::string_view name);

}  // namespace atl::guest
