// The answers of the checker to its requests. Pure: no I/O, so tests run it in place.
//
// Requests, as fields (fields.hpp):
//   verify (NAME SCHEMA)…                  ToolSet::verify(): their warnings
//   declare (NAME SCHEMA DESCRIPTION)…     the same, and their declarations
//   check TOOL SCHEMA ARGS                 ArgumentSchema::check()
//   frame MAX_VALUE_BYTES JSON             read_frame()
//   split KEY JSON                         OffloadedChecks::split(): REST, and each VALUE
// Answers: `ok` and what was asked for; `no TEXT CODE`: it is refused, with the name of an error; `failed
// TEXT`: it could not be done.
// A frame is one field for each of its members: `+` and the text of the member, or empty if the frame has no
// such member.
#pragma once

#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "bridge/runner/frames.hpp"
#include "core/base/error.hpp"
#include "core/execution/argument_schema.hpp"

namespace atl::bridge::checker {

class Worker {
  public:
    /// The fields of the answer. No request makes it throw.
    std::string answer(std::string_view request);

  private:
    struct Known {
        std::string text;
        execution::ArgumentSchema schema;
    };

    std::string handle(const std::vector<std::string_view>& fields);
    std::string check(const std::vector<std::string_view>& fields);
    base::Result<const execution::ArgumentSchema*> schema_of(std::string_view text);

    std::list<Known> known_;  // the last used is first
    std::size_t known_bytes_ = 0;
};

void append_frame_fields(std::string& out, const runner::RunnerFrame& frame);
/// Nothing: these are not the fields of a frame.
std::optional<runner::RunnerFrame> frame_of(const std::vector<std::string_view>& fields);

}  // namespace atl::bridge::checker
