// The questions to a guest about processes that outlive a connection. Each is a command with one reply,
// within a deadline; before the reply of a list comes a line for each process.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bridge/line_reader.hpp"
#include "bridge/reply_line.hpp"
#include "core/plain/operation_limits.hpp"
#include "core/sandbox/operations.hpp"

namespace atl::bridge {

/// Processes that one answer may name, and its bytes.
inline constexpr std::size_t k_most_listed_processes = 256;
inline constexpr std::size_t k_most_listed_bytes = 8UL * 1024 * 1024;
static_assert(base::k_max_running_processes + base::k_max_ended_processes <= k_most_listed_processes);
static_assert(base::k_max_described_bytes < k_most_listed_bytes);

/// The part of all: a connection, a deadline, one end.
class ProcessQuestion : public sandbox::Question, private LineReader {
  public:
    ~ProcessQuestion() override;
    ProcessQuestion(const ProcessQuestion&) = delete;
    ProcessQuestion& operator=(const ProcessQuestion&) = delete;

  protected:
    ProcessQuestion(std::shared_ptr<StreamContext> context, const std::string& path, std::string command);
    /// A line that is no reply. False: it may not come.
    virtual bool on_item(std::string_view /*line*/) { return false; }
    /// Last call; may destroy this.
    virtual void on_answer(const base::Result<ReplyLine>& reply) = 0;

  private:
    void on_line(std::string_view line) final;
    void on_end(Stream::End end, std::string_view detail) final;
    void finish(const base::Result<ReplyLine>& reply);

    std::shared_ptr<StreamContext> context_;
    base::TimerId deadline_ = 0;
    std::shared_ptr<Stream> stream_;
};

class StartQuestion final : public ProcessQuestion {
  public:
    StartQuestion(std::shared_ptr<StreamContext> context, const std::string& path,
                  const sandbox::ProcessSpec& spec, sandbox::Answer<pid_t> answer);

  private:
    void on_answer(const base::Result<ReplyLine>& reply) override;
    sandbox::Answer<pid_t> answer_;
};

class ControlQuestion final : public ProcessQuestion {
  public:
    ControlQuestion(std::shared_ptr<StreamContext> context, const std::string& path, const std::string& id,
                    const sandbox::ProcessControl& control, sandbox::Answer<void> answer);

  private:
    void on_answer(const base::Result<ReplyLine>& reply) override;
    sandbox::Answer<void> answer_;
};

class ListQuestion final : public ProcessQuestion {
  public:
    /// `id` empty: all.
    ListQuestion(std::shared_ptr<StreamContext> context, const std::string& path, const std::string& id,
                 sandbox::Answer<std::vector<sandbox::ProcessInfo>> answer);

  private:
    bool on_item(std::string_view line) override;
    void on_answer(const base::Result<ReplyLine>& reply) override;
    sandbox::Answer<std::vector<sandbox::ProcessInfo>> answer_;
    std::vector<sandbox::ProcessInfo> found_;
    std::size_t bytes_ = 0;
};

/// The lines of the commands.
std::string encode_process(const sandbox::ProcessSpec& spec);
std::string encode_control(const std::string& id, const sandbox::ProcessControl& control);
/// A line of a list; nothing if it is not of the form.
std::optional<sandbox::ProcessInfo> parse_process_line(std::string_view line);

}  // namespace atl::bridge
