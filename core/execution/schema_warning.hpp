// A keyword of a tool's schema that cannot be checked here, though it is one of those that are.
#pragma once

#include <string>

namespace atl::execution {

struct SchemaWarning {
    std::string keyword;
    std::string why;  // with its place, at most 512 bytes
};

}  // namespace atl::execution
