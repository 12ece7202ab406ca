// Deadlines and bounds of one connection. Every one has a default from core/base/limits.hpp; tests inject
// short ones.
#pragma once

#include <chrono>
#include <cstddef>

#include "core/base/limits.hpp"
#include "core/base/shares.hpp"

namespace atl::http {

struct WireSettings {
    using Millis = std::chrono::milliseconds;

    Millis header_deadline = base::k_header_deadline;  // first byte of a request to the end of its head
    Millis body_deadline =
        base::k_body_deadline;  // end of the head to the end of the body; if it streams, for each 64 KiB
    Millis idle_deadline = base::k_idle_deadline;    // kept-alive connection without a request
    Millis write_deadline = base::k_write_deadline;  // for each 64 KiB that the peer has to take
    Millis linger_deadline{2'000};  // reading on after a refusal, so that the peer sees the answer
    std::size_t max_header_bytes = base::k_max_header_bytes;
    base::Budget* buffers = nullptr;  // of output that peers do not take; null: each has what is free
};

}  // namespace atl::http
