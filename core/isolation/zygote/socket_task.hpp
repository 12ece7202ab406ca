// A task of this program, `atoll-zygote sockets`: joins the user namespace that owns a net namespace, and the
// net namespace, then makes sockets there and passes them on. ../socket_maker.hpp is the server's end.
#pragma once

#include <string_view>

namespace atl::isolation {

inline constexpr std::string_view k_socket_task = "sockets";

/// Descriptor 0 is a socket of whole messages, descriptor 3 the net namespace. Each message of two bytes asks
/// for so many TCP sockets of IPv4 and of IPv6; the answer is one byte, how many of IPv4 come first, and the
/// sockets; without sockets it means that the kernel refuses the namespace. Ends when the server closes its
/// end, or at the first thing that fails. Returns the exit status.
int make_sockets();

}  // namespace atl::isolation
