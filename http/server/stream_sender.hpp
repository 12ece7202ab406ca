// Sends a response whose body is a BodyStream: batches what is there into one write, keeps an idle stream
// alive, notices a client that went away or does not read, and ends the stream cleanly when the server stops
// or the client's credential expires.
#pragma once

#include <string>

#include "core/base/task.hpp"
#include "http/server/server_state.hpp"
#include "http/wire/connection.hpp"
#include "http/wire/message.hpp"

namespace atl::http {

/// A response whose body is a stream, while it is sent. Lives in the caller until the task has finished.
struct StreamJob {
    std::string head;  // of the response; goes out with the first events, or soon without them
    Framing framing;   // chunked or until_close
    BodyStream& stream;
    base::SteadyTime expires_at;  // the stream then ends early, with token_expired; max: never
};

/// `ok` when the body is complete and the connection can go on; otherwise it has to be closed.
base::Task<Io> async_send_stream(Connection& connection, StreamJob& job, const ServerState& state);

}  // namespace atl::http
