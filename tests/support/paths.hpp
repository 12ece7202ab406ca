#pragma once

#include <string>
#include <string_view>

namespace atl::test {

/// The path of a file of this build, such as `build_path("bin/atolld")`. Asked for here and not written into
/// the source that needs it: that one would be compiled anew in each checkout, and alone instead of with
/// others.
std::string build_path(std::string_view file);

/// The path of a file of the checkout, such as `source_path("docs/errors.md")`.
std::string source_path(std::string_view file);

}  // namespace atl::test
