// OpenSSL's way to a non-blocking socket. Unlike the socket BIO of OpenSSL it raises no SIGPIPE (send(2),
// MSG_NOSIGNAL), and it gives way: a peer that never pauses cannot hold up the loop in one call.
#pragma once

#include <cstddef>
#include <string>

struct bio_st;

namespace atl::http {

/// A BIO of the socket, which it does not own and which must outlive it. `early`: bytes that were read from
/// it before, and come first. Null if memory ran out.
bio_st* new_socket_bio(int fd, std::string early = {});

/// Lets the next reads of `bio` take so many bytes together; then they say `retry`, as if no more were there.
void allow_reading(bio_st* bio, std::size_t limit_bytes) noexcept;

}  // namespace atl::http
