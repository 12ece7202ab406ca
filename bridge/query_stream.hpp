// The host's end of one turn: a `query` command out, checked events in, until `done`.
#pragma once

#include <string>

#include "bridge/line_stream.hpp"
#include "core/sandbox/ports.hpp"

namespace atl::bridge {

class QueryStream final : public sandbox::Query, private LineStream::Sink {
  public:
    /// `command` is the query's line. `observer` must outlive this; it may destroy this in any call.
    QueryStream(std::shared_ptr<StreamContext> context, const std::string& path, std::string command,
                sandbox::QueryObserver& observer);
    ~QueryStream() override;

  private:
    void on_line(std::string_view line) override;
    void on_end(LineStream::End end, std::string_view detail) override;
    LineStream::Pace pace() const override;

    sandbox::QueryObserver& observer_;
    std::size_t bad_lines_ = 0;
    std::shared_ptr<LineStream> stream_;
};

}  // namespace atl::bridge
