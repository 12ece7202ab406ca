// Lets Catch2 print a Result: REQUIRE(result) shows the error's code and detail.
#pragma once

#include <catch2/catch_tostring.hpp>
#include <string>

#include "core/base/error.hpp"

namespace Catch {

template <class T>
struct StringMaker<atl::base::Result<T>> {
    static std::string convert(const atl::base::Result<T>& result) {
        if (result.has_value())
            return "success";
        return std::string(atl::base::code_name(result.error().code())) + ": " + result.error().detail();
    }
};

}  // namespace Catch
