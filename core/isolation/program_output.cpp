#include "core/isolation/program_output.hpp"

#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/readable_pipe.hpp>
#include <boost/process/v2/process.hpp>
#include <boost/process/v2/stdio.hpp>
#include <cerrno>

#include "core/base/log.hpp"

namespace atl::isolation {
namespace {

constexpr std::size_t k_max_output_bytes = 64UL * 1024;

}  // namespace

base::Result<ProgramOutput> run_program(const std::filesystem::path& program,
                                        const std::vector<std::string>& arguments, const std::string& hint) {
    const auto unsupported = [&](std::string why) {
        return base::Error(base::Errc::host_unsupported, std::move(why) + hint);
    };
    // Checked before the fork: after an exec that fails, the child of Process v2 runs the server's atexit(3)
    // handlers and stays a zombie.
    if (::access(program.c_str(), X_OK) != 0)
        return unsupported(base::errno_text("run " + program.string(), errno));
    boost::asio::io_context loop(1);
    boost::asio::readable_pipe pipe(loop);
    boost::system::error_code error;
    try {
        namespace v2 = boost::process::v2;
        v2::process child(loop, program.string(), arguments, v2::process_stdio{nullptr, pipe, pipe});
        ProgramOutput output;
        boost::asio::read(pipe, boost::asio::dynamic_buffer(output.text, k_max_output_bytes), error);
        pipe.close(error);  // a program that writes more gets SIGPIPE and does not wait for a reader
        output.exit_code = child.wait(error);
        return output;
    } catch (const std::exception& failure) {
        return unsupported(program.string() + " cannot be run: " + failure.what());
    }
}

}  // namespace atl::isolation
