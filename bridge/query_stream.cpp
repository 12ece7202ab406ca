#include "bridge/query_stream.hpp"

#include <utility>

#include "bridge/event_line.hpp"
#include "bridge/protocol.hpp"

namespace atl::bridge {

QueryStream::QueryStream(std::shared_ptr<StreamContext> context, const std::string& path, std::string command,
                         std::shared_ptr<IdleStream> idle, sandbox::QueryObserver& observer)
    : LineReader(base::k_max_event_line_bytes),
      observer_(observer),
      idle_(std::move(idle)),
      stream_(idle_->begin(std::move(context), path, std::move(command), *this)) {}

QueryStream::~QueryStream() {
    if (stream_)
        done_ ? stream_->release() : stream_->close();
}

void QueryStream::on_line(std::string_view line) {
    const auto event = parse_event_line(line);
    if (!event) {
        ++bad_lines_;
        return observer_.on_bad_line(event.error().detail());
    }
    if (event->name == ev::done)
        return on_done(*event);
    observer_.on_event(*event);
}

// The turn is over for the guest: what it may still send is not looked at. The observer may destroy this in
// the first call and must not get the second one then.
void QueryStream::on_done(const sandbox::AgentEvent& event) {
    done_ = true;
    const auto stream = stream_;
    const auto idle = idle_;
    observer_.on_event(event);
    if (stream->has_reader()) {
        stream->release();
        stream_.reset();  // it may serve another query while this one is still there
        observer_.on_end(sandbox::QueryEnd::done, {});
    }
    idle->keep(stream);
}

void QueryStream::on_end(Stream::End end, std::string_view detail) {
    switch (end) {
        case Stream::End::connect_failed:
            return observer_.on_end(sandbox::QueryEnd::connect_failed, detail);
        case Stream::End::closed:
            return observer_.on_end(sandbox::QueryEnd::closed, detail);
        case Stream::End::refused:
            return observer_.on_end(sandbox::QueryEnd::protocol_error, detail);
    }
}

// Refused lines count for no bound of the event log, so they have this one.
Stream::Pace QueryStream::pace() const {
    const bool slow = bad_lines_ > base::k_max_protocol_complaints || observer_.truncated();
    if (slow)
        return Stream::Pace::slow;
    return observer_.congested() ? Stream::Pace::pause : Stream::Pace::full;
}

}  // namespace atl::bridge
