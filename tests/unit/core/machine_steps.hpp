// For tests of the conversation's machine: compares the kinds of its actions.
#pragma once

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <vector>

#include "core/conversation/machine.hpp"

namespace atl::test {

using conversation::Actions;

/// The kind of an action, without its data.
using Kind = std::size_t;
template <class T>
const Kind k = conversation::Action(T{}).index();

inline std::vector<Kind> kinds(const Actions& actions) {
    std::vector<Kind> out;
    for (const auto& one : actions)
        out.push_back(one.index());
    return out;
}

inline std::size_t count(const Actions& actions, Kind kind) {
    const auto all = kinds(actions);
    return static_cast<std::size_t>(std::count(all.begin(), all.end(), kind));
}

/// The first of its kind.
template <class T>
const T& first(const Actions& actions) {
    const auto at = std::find_if(actions.begin(), actions.end(),
                                 [](const auto& one) { return std::holds_alternative<T>(one); });
    REQUIRE(at != actions.end());
    return std::get<T>(*at);
}

inline conversation::Machine active() {
    conversation::Machine machine;
    machine.create();
    machine.sandbox_started();
    return machine;
}

inline sandbox::Exit crash() {
    sandbox::Exit exit;
    exit.exit_class = sandbox::ExitClass::signalled;
    exit.code = 9;
    exit.detail = "killed";
    return exit;
}

}  // namespace atl::test
