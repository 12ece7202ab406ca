// The host's end of one turn: a `query` command out, checked events in, until `done`.
#pragma once

#include <string>

#include "bridge/line_reader.hpp"
#include "core/sandbox/ports.hpp"

namespace atl::bridge {

class QueryStream final : public sandbox::Query, private LineReader {
  public:
    /// `command` is the query's line. `observer` must outlive this; it may destroy this in any call.
    QueryStream(std::shared_ptr<StreamContext> context, const std::string& path, std::string command,
                std::shared_ptr<IdleStream> idle, sandbox::QueryObserver& observer);
    ~QueryStream() override;

  private:
    void on_line(std::string_view line) override;
    void on_done(const sandbox::AgentEvent& event);
    void on_end(Stream::End end, std::string_view detail) override;
    Stream::Pace pace() const override;

    sandbox::QueryObserver& observer_;
    std::shared_ptr<IdleStream> idle_;
    std::size_t bad_lines_ = 0;
    bool done_ = false;
    std::shared_ptr<Stream> stream_;
};

}  // namespace atl::bridge
