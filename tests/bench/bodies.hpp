// Large bodies over blocking sockets, for the measurements of megabytes a second. All of it throws where the
// peer ends.
#pragma once

#include <cstddef>
#include <string>

namespace atl::bench {

inline constexpr std::size_t k_body_piece_bytes = 64UL * 1024;

void send_all(int fd, const char* data, std::size_t size);
/// So many bytes of a body.
void send_bytes(int fd, std::size_t size);
/// Reads so many bytes.
void receive_bytes(int fd, std::size_t size);
/// The head of a response, byte by byte; throws unless its status is `status`, as `200`, or a part of one, as
/// `20`.
std::string receive_head(int fd, const char* status);

}  // namespace atl::bench
