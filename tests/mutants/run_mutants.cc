// Damages small models, programs and recordings in every way bytes can be damaged, and asks 'ferry' about what is left:
// check, info, doctor, convert, optimize, run, bench, export, compare. Each mutant must be answered or refused: no
// signal, no foreign exception, nothing longer than its time, in a limited memory.
//
//   run_mutants CORPUS COUNT [--first N] [--jobs J] [--seconds S] [--limit-seconds S] [--limit-gigabytes G] [--keep
//   DIR]
//
// Mutants are numbered: number N is always the same file and the same question, so that one that fails can be run again
// alone (--first N, COUNT 1); --keep leaves the files of such mutants in DIR. --seconds begins no new mutants after so
// long. Workers are processes; one that dies is replaced.
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "mutants/commands.h"
#include "onnx/value_file.h"
#include "tensor/npz.h"

namespace ferry::mutants {
namespace {

namespace fs = std::filesystem;

constexpr int kMostJobs = 256;
constexpr uint64_t kBlock = 50;          // numbers that a worker takes at once
constexpr uint64_t kWorkerLife = 2'000;  // mutants before a worker is replaced, so that what it keeps is bounded
constexpr const char* kCommandNames[] = {"check", "info",  "doctor", "convert", "optimize",
                                         "run",   "bench", "export", "compare"};
constexpr size_t kCommands = std::size(kCommandNames);

struct Settings {
  std::string corpus, keep;
  uint64_t count = 0, first = 0;
  int jobs = 1;
  double seconds = 0;
  unsigned limit_seconds = 20;
  double limit_gigabytes = 4;
  bool verbose = false;
};

struct Count {
  std::atomic<uint64_t> answered, refused;
};

// What all processes write to.
struct Board {
  std::atomic<uint64_t> next;   // the first number that nobody has taken
  std::atomic<uint64_t> done;   // mutants
  std::atomic<uint64_t> wrong;  // findings
  std::atomic<uint64_t> slowest_ms, slowest_number, largest_kb, largest_number;
  struct {
    std::atomic<uint64_t> number, end;  // what the job is at, and the end of its block
    char words[600];
  } jobs[kMostJobs];
  Count counts[kFormats][kCommands];
};

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

uint64_t PeakKilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss);
}

void Raise(std::atomic<uint64_t>& most, std::atomic<uint64_t>& of, uint64_t value, uint64_t number) {
  for (uint64_t before = most; value > before;)
    if (most.compare_exchange_weak(before, value)) {
      of = number;
      return;
    }
}

class Worker {
 public:
  Worker(const Settings& settings, const Corpus& corpus, Board& board, int job, const std::string& folder)
      : settings_(settings), corpus_(corpus), board_(board), job_(job), folder_(folder) {
    fs::create_directories(folder_);
    Confine();
  }

  // 0: all numbers are taken; 1: another worker goes on.
  int Work(double end) {
    auto& mine = board_.jobs[job_];
    for (uint64_t done = 0; done < kWorkerLife;) {
      if (mine.number >= mine.end) {
        if (settings_.seconds > 0 && Now() > end) return 0;
        const uint64_t last = settings_.first + settings_.count, begin = board_.next.fetch_add(kBlock);
        if (begin >= last) return 0;
        mine.end = std::min(begin + kBlock, last);
        mine.number = begin;
      }
      for (; mine.number < mine.end; ++mine.number, ++done) Try(mine.number);
    }
    return 1;
  }

 private:
  void Confine() const {
    const rlim_t bytes = static_cast<rlim_t>(settings_.limit_gigabytes * (1 << 30));
#if !defined(FERRY_SANITIZE_ADDRESS) && !defined(FERRY_SANITIZE_THREAD)
    rlimit limit{bytes, bytes};
    setrlimit(RLIMIT_AS, &limit);
#else
    (void)bytes;
#endif
    rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    cpu_set_t all;
    CPU_ZERO(&all);
    if (settings_.jobs > 1 && sched_getaffinity(0, sizeof all, &all) == 0 && CPU_COUNT(&all) > 0) {
      int wanted = job_ % CPU_COUNT(&all), cpu = 0;
      for (; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &all) && wanted-- == 0) break;
      CPU_ZERO(&all);
      CPU_SET(cpu, &all);
      sched_setaffinity(0, sizeof all, &all);
    }
    std::freopen("/dev/null", "w", stdout);
  }

  // CPU time ends a mutant that computes for ever, the clock one that waits for ever.
  void StartClocks() const {
    const itimerval time{{0, 0}, {settings_.limit_seconds, 0}};
    setitimer(ITIMER_PROF, &time, nullptr);
    alarm(settings_.limit_seconds * 10);
  }
  void StopClocks() const {
    const itimerval none{};
    setitimer(ITIMER_PROF, &none, nullptr);
    alarm(0);
  }

  // An .npz of the recorded inputs of one of ONNX's cases; empty where they are no tensors.
  const std::string& RecordingOf(const Specimen& specimen) {
    auto [found, fresh] = recordings_.try_emplace(specimen.path);
    if (!fresh) return found->second;
    if (!specimen.recordings.empty()) return found->second = specimen.recordings[0];
    if (specimen.inputs.empty()) return found->second;
    try {
      NamedTensors tensors;
      for (const std::string& input : specimen.inputs)
        tensors.emplace_back("in" + std::to_string(tensors.size()), ReadValueFile(input, nullptr).tensor());
      const std::string path = folder_ + "/inputs" + std::to_string(recordings_.size()) + ".npz";
      WriteNpz(path, tensors);
      found->second = path;
    } catch (const Error&) {
    }
    return found->second;
  }

  // The inputs of one of ONNX's cases, where those of the one that is drawn can be had.
  void AsRecordingOf(const std::vector<Specimen>& models, Random& random, Specimen& specimen) {
    const Specimen& model = models[random() % models.size()];
    if (const std::string& recording = RecordingOf(model); !recording.empty())
      specimen = {.path = recording,
                  .format = Format::kNpz,
                  .recordings = {},
                  .inputs = {},
                  .model = model.path,
                  .program = {}};
  }

  void Try(uint64_t number) {
    Random random(number);
    // Models are the most of it.
    const uint64_t choice = random() % 16;
    const auto& specimens = corpus_.of[choice < 9 ? 0 : choice < 13 ? 1 : choice < 14 ? 2 : 3];
    const auto& kind = specimens.empty() ? corpus_.of[0] : specimens;
    Specimen specimen = kind[random() % kind.size()];
    if (specimen.format == Format::kNpz && random() % 2) AsRecordingOf(corpus_.of[0], random, specimen);
    const char* suffix = kFormatNames[static_cast<size_t>(specimen.format)];
    // A name of its own: what is remembered about files is not what is tried here.
    Place place{folder_, folder_ + "/" + std::to_string(number) + suffix, {}};
    if (specimen.format != Format::kNpz) place.recording = RecordingOf(specimen);
    const std::string bytes = Damaged(specimen, corpus_, random, folder_ + "/scratch.zip");
    std::ofstream(place.mutant, std::ios::binary) << bytes;
    const std::vector<std::string> words = CommandFor(specimen, place, random);
    std::string line;
    for (const std::string& word : words) line += word + " ";
    line += "(" + specimen.path + ")";
    std::snprintf(board_.jobs[job_].words, sizeof board_.jobs[job_].words, "%s", line.c_str());
    if (settings_.verbose) std::fprintf(stderr, "%llu %s\n", static_cast<unsigned long long>(number), line.c_str());

    const uint64_t memory = PeakKilobytes();
    const double begin = Now();
    StartClocks();
    std::string said;
    const Outcome outcome = RunCommandLine(words, said);
    StopClocks();
    Raise(board_.slowest_ms, board_.slowest_number, static_cast<uint64_t>((Now() - begin) * 1000), number);
    if (const uint64_t after = PeakKilobytes(); after > memory)
      Raise(board_.largest_kb, board_.largest_number, after, number);
    if (outcome == Outcome::kWrong) {
      ++board_.wrong;
      std::fprintf(stderr, "FOUND %llu: %s: %s\n", static_cast<unsigned long long>(number), said.c_str(), line.c_str());
      Keep(settings_, place.mutant);
    }
    for (size_t i = 0; i < kCommands; ++i)
      if (words[0] == kCommandNames[i]) {
        Count& count = board_.counts[static_cast<size_t>(specimen.format)][i];
        ++(outcome == Outcome::kAnswered ? count.answered : count.refused);
      }
    ++board_.done;
    fs::remove(place.mutant);
  }

 public:
  static void Keep(const Settings& settings, const std::string& mutant) {
    if (settings.keep.empty()) return;
    std::error_code ignored;
    fs::create_directories(settings.keep, ignored);
    fs::copy(mutant, settings.keep + "/" + fs::path(mutant).filename().string(), fs::copy_options::overwrite_existing,
             ignored);
  }

 private:
  const Settings& settings_;
  const Corpus& corpus_;
  Board& board_;
  const int job_;
  const std::string folder_;
  std::map<std::string, std::string> recordings_;
};

// A worker died at the number on the board: says so, and leaves the rest of its block to the next one.
void ReportDeath(const Settings& settings, Board& board, int job, int status, const std::string& folder) {
  auto& place = board.jobs[job];
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  const bool late = signal == SIGPROF || signal == SIGALRM;
  ++board.wrong;
  ++board.done;
  std::fprintf(stderr, "FOUND %llu: %s %d: %s\n", static_cast<unsigned long long>(place.number.load()),
               late     ? "too long, signal"
               : signal ? "signal"
                        : "status",
               signal ? signal : WEXITSTATUS(status), place.words);
  for (const char* suffix : kFormatNames) {
    const std::string mutant = folder + "/" + std::to_string(place.number) + suffix;
    if (fs::exists(mutant)) Worker::Keep(settings, mutant);
  }
  ++place.number;
}

std::string JobFolder(const std::string& folder, int job) { return folder + "/" + std::to_string(job); }

void PrintTable(const Settings& settings, const Board& board, double seconds) {
  std::printf("%-10s %-9s %10s %10s\n", "format", "command", "answered", "refused");
  for (size_t format = 0; format < kFormats; ++format)
    for (size_t i = 0; i < kCommands; ++i) {
      const Count& count = board.counts[format][i];
      if (count.answered + count.refused > 0)
        std::printf("%-10s %-9s %10llu %10llu\n", kFormatNames[format], kCommandNames[i],
                    static_cast<unsigned long long>(count.answered), static_cast<unsigned long long>(count.refused));
    }
  auto number = [](const std::atomic<uint64_t>& value) { return static_cast<unsigned long long>(value.load()); };
  std::printf(
      "%llu mutants (from number %llu) in %.0f s: %llu wrong; slowest %.2f s (%llu), most memory %llu MB (%llu)\n",
      number(board.done), static_cast<unsigned long long>(settings.first), seconds, number(board.wrong),
      static_cast<double>(board.slowest_ms) / 1000, number(board.slowest_number), number(board.largest_kb) / 1000,
      number(board.largest_number));
}

int RunJobs(const Settings& settings, const Corpus& corpus, const std::string& folder) {
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 2;
  auto& board = *new (memory) Board();
  board.next = settings.first;
  const double begin = Now(), end = begin + settings.seconds;
  std::map<pid_t, int> running;
  auto start = [&](int job) {
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) _exit(Worker(settings, corpus, board, job, JobFolder(folder, job)).Work(end) == 0 ? 0 : 10);
    if (child > 0) running[child] = job;
  };
  for (int job = 0; job < settings.jobs; ++job) start(job);
  while (!running.empty()) {
    int status = 0;
    const pid_t child = wait(&status);
    const auto found = running.find(child);
    if (child < 0) break;
    if (found == running.end()) continue;
    const int job = found->second;
    running.erase(found);
    const bool ended = WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 10);
    if (!ended) ReportDeath(settings, board, job, status, JobFolder(folder, job));
    if (!ended || WEXITSTATUS(status) == 10) start(job);
  }
  PrintTable(settings, board, Now() - begin);
  return board.wrong > 0 ? 1 : 0;
}

bool Parse(int argc, char** argv, Settings& settings) {
  if (argc < 3) return false;
  settings.corpus = argv[1];
  settings.count = std::strtoull(argv[2], nullptr, 10);
  for (int i = 3; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--verbose") {
      settings.verbose = true;
      continue;
    }
    if (++i >= argc) return false;
    if (option == "--first")
      settings.first = std::strtoull(argv[i], nullptr, 10);
    else if (option == "--jobs")
      settings.jobs = std::clamp(std::atoi(argv[i]), 1, kMostJobs);
    else if (option == "--seconds")
      settings.seconds = std::atof(argv[i]);
    else if (option == "--limit-seconds")
      settings.limit_seconds = static_cast<unsigned>(std::max(1, std::atoi(argv[i])));
    else if (option == "--limit-gigabytes")
      settings.limit_gigabytes = std::atof(argv[i]);
    else if (option == "--keep")
      settings.keep = argv[i];
    else
      return false;
  }
  return true;
}

int Run(int argc, char** argv) {
  Settings settings;
  if (!Parse(argc, argv, settings)) {
    std::fprintf(stderr,
                 "usage: run_mutants CORPUS COUNT [--first N] [--jobs J] [--seconds S] [--limit-seconds S]\n"
                 "                   [--limit-gigabytes G] [--keep DIR] [--verbose]\n");
    return 2;
  }
  const Corpus corpus = ReadCorpus(settings.corpus);
  if (corpus.of[0].empty()) {
    std::fprintf(stderr, "no small models below %s\n", settings.corpus.c_str());
    return 2;
  }
  const fs::path memory = "/dev/shm";
  std::string folder =
      ((access(memory.c_str(), W_OK) == 0 ? memory : fs::temp_directory_path()) / "mutants-XXXXXX").string();
  if (!mkdtemp(folder.data())) return 2;
  const int status = RunJobs(settings, corpus, folder);
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  return status;
}

}  // namespace
}  // namespace ferry::mutants

int main(int argc, char** argv) { return ferry::mutants::Run(argc, argv); }
