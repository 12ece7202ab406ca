#include "core/base/task_group.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/system/system_error.hpp>
#include <cassert>
#include <exception>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::base {
namespace {

void log_failure(const std::string& group, const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const boost::system::system_error& error) {
        if (error.code() != asio::error::operation_aborted)
            LogLine(evt::task_failed).field("group", group).quoted("err", error.what()).error();
    } catch (const std::exception& error) {
        LogLine(evt::task_failed).field("group", group).quoted("err", error.what()).error();
    } catch (...) {
        LogLine(evt::task_failed).field("group", group).field("err", "unknown exception").error();
    }
}

}  // namespace

TaskGroup::TaskGroup(Executor executor, std::string name) : executor_(executor), name_(std::move(name)) {}

TaskGroup::~TaskGroup() {
    assert(tasks_.empty());
}

void TaskGroup::spawn(Task<> task) {
    const auto entry = tasks_.emplace(tasks_.end());
    auto finished = [this, entry](const std::exception_ptr& failure) {
        if (failure)
            log_failure(name_, failure);
        tasks_.erase(entry);
        if (tasks_.empty() && on_empty_) {
            auto done = std::move(on_empty_);
            on_empty_ = nullptr;
            done();
        }
    };
    asio::co_spawn(executor_, std::move(task),
                   asio::bind_cancellation_slot(entry->slot(), std::move(finished)));
}

void TaskGroup::cancel_all() {
    // emit() may end a task and so erase its entry: step on before emitting.
    for (auto it = tasks_.begin(); it != tasks_.end();) {
        auto& signal = *it++;
        signal.emit(asio::cancellation_type::terminal);
    }
}

void TaskGroup::on_empty(std::function<void()> done) {
    if (tasks_.empty()) {
        done();
        return;
    }
    on_empty_ = std::move(done);
}

}  // namespace atl::base
