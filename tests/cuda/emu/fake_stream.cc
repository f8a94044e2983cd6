/* Streams, events and launches (fake_cuda.h). */
#include <stdio.h>
#include <time.h>

#include <algorithm>

#include "tests/cuda/emu/fake.h"

typedef std::shared_ptr<fake_line_t> line_t;

/* ---- running actions ---- */

/* Runs the oldest action of a queue.  Returns false if it cannot run now. */
static bool do_first(const line_t &line)
{
  if (line->work.empty()) return false;
  fake_piece_t *piece = &line->work.front();
  if (piece->after && piece->after->done < piece->number) return false;
  cudaError_t *broken = &fake->device[line->device].broken;
  if (piece->action && *broken == cudaSuccess) {
    fake_access_begin(piece->who);
    cudaError_t rc = piece->action(), found = fake_access_end();
    if (found != cudaSuccess) rc = found;
    if (rc == cudaErrorNotReady) return false;
    if (rc == FAKE_AGAIN) return true;
    *broken = rc;
  }
  line->work.pop_front();
  line->done++;
  return true;
}

/* Runs the oldest action of any queue; false if none can run. */
static bool do_any(void)
{
  size_t n = fake->lines.size(), from = fake_draw() % n;
  for (size_t i = 0; i < n; i++)
    if (do_first(fake->lines[(from + i) % n])) return true;
  return false;
}

/* Order `late`: runs only the oldest action of a queue, or the one that it waits for. */
static bool do_needed(const line_t &line)
{
  if (line->work.empty()) return false;
  const fake_piece_t *piece = &line->work.front();
  if (piece->after && piece->after->done < piece->number) return do_needed(piece->after);
  return do_first(line);
}

static bool do_some(const line_t &line)
{
  return fake->order == fake_state_t::RANDOM ? do_any() : do_needed(line);
}

static void finish(const line_t &line, int64_t number)
{
  while (line->done < number)
    if (!do_some(line)) fake_unlock_a_while();
}

cudaError_t fake_run_until(const line_t &line, int64_t number)
{
  finish(line, number);
  if (number == line->put) fake_host_waited(line->clock);
  return fake->device[line->device].broken;
}

cudaError_t fake_run_device(int device, bool host_waits)
{
  std::vector<line_t> lines = fake->lines;
  for (const line_t &line : lines) {
    if (line->device != device) continue;
    finish(line, line->put);
    if (host_waits) fake_host_waited(line->clock);
  }
  return fake->device[device].broken;
}

/* ---- enqueuing ---- */

fake_line_t::~fake_line_t()
{
  fake_lane_free(lane);
  fake_lane_free(graph_lane);
}

static line_t new_line(int device)
{
  line_t line = std::make_shared<fake_line_t>();
  static int streams;
  line->device = device;
  line->stream = ++streams;
  line->lane = fake_lane_new();
  line->graph_lane = fake_lane_new();
  auto &lines = fake->lines;
  /* queues of destroyed streams are kept until they are empty */
  lines.erase(std::remove_if(lines.begin(), lines.end(),
                             [](const line_t &l) { return l.use_count() == 1 && l->work.empty(); }),
              lines.end());
  lines.push_back(line);
  return line;
}

static void put(const line_t &line, const char *what, const fake_piece_t &piece)
{
  fake_clock_join(&line->clock, fake_host_clock());
  fake_clock_next(&line->clock, line->lane);
  line->work.push_back(piece);
  line->work.back().who =
      std::make_shared<const fake_who_t>(fake_who_t{what, line->stream, line->lane, line->clock});
  line->put++;
  if (fake->order == fake_state_t::INLINE) finish(line, line->put);
  /* the device may also start at once */
  if (fake->order == fake_state_t::RANDOM && fake_draw() & 1) do_any();
}

/* Returns the allocations whose addresses are among the words. */
static std::set<const unsigned char *> allocations(const void *words, size_t bytes)
{
  std::set<const unsigned char *> all;
  for (size_t i = 0; i + sizeof(void *) <= bytes; i += sizeof(void *)) {
    const unsigned char *start;
    const void *p;
    memcpy(&p, (const char *)words + i, sizeof p);
    if (fake_memory_of(p, &start)) all.insert(start);
  }
  return all;
}

cudaError_t fake_put(CUstream_st *s, const std::string &what, const fake_action_t &action,
                     const void *args, size_t bytes)
{
  if (!s->capture) {
    put(s->line, what.c_str(), {action, nullptr, 0, nullptr});
    return cudaSuccess;
  }
  if (!s->capture->valid) return cudaErrorStreamCaptureInvalidated;
  s->capture->nodes.push_back(
      {action, s->last, what, s->line, s->priority, allocations(args, bytes)});
  s->last = {(int)s->capture->nodes.size() - 1};
  return cudaSuccess;
}

static CUstream_st *new_stream(int device, unsigned flags, int priority)
{
  return new CUstream_st{device, flags, priority, new_line(device), nullptr, {}};
}

CUstream_st *fake_stream(cudaStream_t s)
{
  fake_device_t *device = &fake->device[fake_current()];
  if (s != NULL && s != cudaStreamLegacy) return fake->streams.count(s) ? s : NULL;
  if (!device->legacy) device->legacy = new_stream(fake_current(), 0, 0);
  return device->legacy;
}

/* ---- launches ---- */

static bool is_configuration(dim3 grid, dim3 block)
{
  const unsigned limit = 65535;
  if (grid.x == 0 || grid.x > 0x7fffffff || grid.y == 0 || grid.y > limit || grid.z == 0 ||
      grid.z > limit)
    return false;
  if (block.x == 0 || block.x > 1024 || block.y == 0 || block.y > 1024 || block.z == 0 ||
      block.z > 64)
    return false;
  return (uint64_t)block.x * block.y * block.z <= 1024;
}

/* 1: emu_see_*() found host memory in the arguments of the next launch. */
static thread_local bool sees_host_memory;

static void tell_host_memory(const char *kernel, const void *p)
{
  sees_host_memory = true;
  fprintf(stderr, "fake cuda: kernel %s gets a pointer to the host's memory, %p\n", kernel, p);
}

/* Returns true for host memory.  The address just after an allocation is accepted. */
static bool is_foreign(const void *p)
{
  const unsigned char *start;
  fake_call call("", FAKE_HARMLESS, false);
  return !fake_memory_of(p, &start) && !fake_memory_of((const char *)p - 1, &start);
}

void emu_see_pointer(const char *kernel, const void *p)
{
  if (p && is_foreign(p)) tell_host_memory(kernel, p);
}

/* Words of a struct may be padding.  With the address sanitizer this check is off: it maps so much
 * memory that padding looks like an address too often. */
void emu_see_words(const char *kernel, const void *words, size_t bytes)
{
  if (emu_has_asan) return;
  for (size_t i = 0; i + sizeof(void *) <= bytes; i += sizeof(void *)) {
    const void *p;
    memcpy(&p, (const char *)words + i, sizeof p);
    if (fake_is_host_heap(p) && is_foreign(p)) tell_host_memory(kernel, p);
  }
}

void emu_enqueue(cudaStream_t stream, const emu_kernel_t *kernel, const void *args, size_t bytes)
{
  fake_call call("cudaLaunchKernel", FAKE_HARMLESS);
  bool illegal = sees_host_memory;
  sees_host_memory = false;
  if (call.rc != cudaSuccess) {
    call.done(call.rc);
    return;
  }
  CUstream_st *s = fake_stream(stream);
  if (!s || s->device != fake_current()) {
    call.done(cudaErrorInvalidResourceHandle);
    return;
  }
  if (!is_configuration(kernel->grid, kernel->block)) {
    call.done(cudaErrorInvalidConfiguration);
    return;
  }
  std::shared_ptr<char> copy(new char[bytes], std::default_delete<char[]>());
  memcpy(copy.get(), args, bytes);
  emu_kernel_t k = *kernel;
  call.done(fake_put(
      s, k.name,
      [=] {
        if (illegal) return cudaErrorIllegalAddress;
        return emu_run(&k, copy.get()) ? cudaErrorLaunchFailure : cudaSuccess;
      },
      copy.get(), bytes));
}

extern "C" cudaError_t fake_cuda_work_owned(cudaStream_t stream, cudaError_t (*work)(void *args),
                                            const void *args, size_t bytes,
                                            void (*gone)(void *args))
{
  std::shared_ptr<char> copy(new char[bytes], [gone](char *p) {
    if (gone) gone(p);
    delete[] p;
  });
  if (bytes > 0) memcpy(copy.get(), args, bytes);
  FAKE_CALL(FAKE_HARMLESS);
  CUstream_st *s = fake_stream(stream);
  if (!s) return call.done(cudaErrorInvalidResourceHandle);
  return call.done(fake_put(
      s, "a library", [=] { return work(copy.get()); }, copy.get(), bytes));
}

extern "C" cudaError_t fake_cuda_work(cudaStream_t stream, cudaError_t (*work)(void *args),
                                      const void *args, size_t bytes)
{
  return fake_cuda_work_owned(stream, work, args, bytes, nullptr);
}

extern "C" int64_t fake_cuda_position(cudaStream_t stream)
{
  fake_call call("", FAKE_HARMLESS, false);
  CUstream_st *s = fake_stream(stream);
  int64_t sum = 0;
  if (!s) return -1;
  if (!s->capture) return s->line->put;
  for (int node : s->last)
    sum += node + 1;
  return -2 - sum;
}

extern "C" int fake_cuda_progress(void)
{
  fake_call call("", FAKE_HARMLESS, false);
  return !fake->lines.empty() && do_any();
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t f, void *data)
{
  FAKE_CALL(FAKE_HARMLESS);
  CUstream_st *s = fake_stream(stream);
  if (!s) return call.done(cudaErrorInvalidResourceHandle);
  return call.done(fake_put(s, "a host function", [=] {
    f(data);
    return cudaSuccess;
  }));
}

/* ---- streams ---- */

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned int flags, int priority)
{
  FAKE_CALL(FAKE_HARMLESS);
  *out = new_stream(fake_current(), flags, priority);
  fake->streams.insert(*out);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned int flags)
{
  return cudaStreamCreateWithPriority(out, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *out)
{
  return cudaStreamCreateWithPriority(out, cudaStreamDefault, 0);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
  FAKE_CALL(FAKE_HARMLESS);
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

/* Its actions still run. */
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
  FAKE_CALL(FAKE_HARMLESS);
  if (!fake->streams.count(stream)) return call.done(cudaErrorInvalidResourceHandle);
  if (stream->capture) {
    fake_invalidate(stream->capture.get());
    stream->capture->streams.erase(stream);
  }
  fake->streams.erase(stream);
  delete stream;
  return cudaSuccess;
}

/* Checks that a stream may be queried or waited for: not while it captures. */
static cudaError_t outside_captures(const CUstream_st *s)
{
  if (!s) return cudaErrorInvalidResourceHandle;
  if (!s->capture) return cudaSuccess;
  fake_invalidate(s->capture.get());
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
  FAKE_CALL(FAKE_UNSAFE);
  CUstream_st *s = fake_stream(stream);
  cudaError_t rc = outside_captures(s);
  return call.done(rc == cudaSuccess ? fake_run_until(s->line, s->line->put) : rc);
}

/* Runs some actions on each query, so that polling ends. */
static cudaError_t asked(const line_t &line, int64_t number)
{
  int pieces = 1 + (int)(fake_draw() % 64);
  while (line->done < number && pieces-- > 0 && do_some(line)) {
  }
  if (fake->device[line->device].broken != cudaSuccess) return fake->device[line->device].broken;
  if (line->done < number) return cudaErrorNotReady;
  if (number == line->put) fake_host_waited(line->clock);
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
  FAKE_CALL(FAKE_UNSAFE);
  CUstream_st *s = fake_stream(stream);
  cudaError_t rc = outside_captures(s);
  return call.done(rc == cudaSuccess ? asked(s->line, s->line->put) : rc);
}

cudaError_t cudaDeviceSynchronize(void)
{
  FAKE_CALL(FAKE_UNSAFE);
  return call.done(fake_run_device(fake_current(), true));
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device)
{
  FAKE_CALL(FAKE_HARMLESS);
  CUstream_st *s = fake_stream(stream);
  if (!s) return call.done(cudaErrorInvalidResourceHandle);
  *device = s->device;
  return cudaSuccess;
}

/* ---- events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned int flags)
{
  FAKE_CALL(FAKE_HARMLESS);
  *out = new CUevent_st{fake_current(), flags, nullptr, nullptr, {}};
  fake->events.insert(*out);
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
  return cudaEventCreateWithFlags(out, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
  FAKE_CALL(FAKE_HARMLESS);
  if (!fake->events.erase(event)) return call.done(cudaErrorInvalidResourceHandle);
  delete event;
  return cudaSuccess;
}

static double seconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
  FAKE_CALL(FAKE_HARMLESS);
  CUstream_st *s = fake_stream(stream);
  if (!s || !fake->events.count(event) || s->device != event->device)
    return call.done(cudaErrorInvalidResourceHandle);
  event->capture = s->capture;
  event->nodes = s->last;
  event->mark = nullptr;
  if (s->capture)
    return call.done(s->capture->valid ? cudaSuccess : cudaErrorStreamCaptureInvalidated);
  auto mark = std::make_shared<fake_mark_t>();
  mark->line = s->line;
  if (!(event->flags & cudaEventDisableTiming)) {
    put(s->line, "an event",
        {[mark] {
           mark->time = seconds();
           return cudaSuccess;
         },
         nullptr, 0, nullptr});
  }
  mark->number = s->line->put;
  mark->clock = s->line->clock;
  event->mark = mark;
  return cudaSuccess;
}

/* In a capture, the record becomes a node, which each launch of the graph executes again. */
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
  if (flags == cudaEventRecordDefault) return cudaEventRecord(event, stream);
  FAKE_CALL(FAKE_HARMLESS);
  CUstream_st *s = fake_stream(stream);
  if (!s || !fake->events.count(event) || s->device != event->device)
    return call.done(cudaErrorInvalidResourceHandle);
  if (flags != cudaEventRecordExternal || !s->capture) return call.done(cudaErrorInvalidValue);
  auto line = s->line;
  return call.done(fake_put(s, "an event", [event, line] {
    if (!fake->events.count(event)) return cudaErrorInvalidResourceHandle;
    auto mark = std::make_shared<fake_mark_t>();
    mark->line = line;
    mark->number = 0;
    mark->clock = fake_running()->clock;
    mark->time = seconds();
    event->capture = nullptr;
    event->mark = mark;
    return cudaSuccess;
  }));
}

/* Makes the stream wait for an event of a capture, and join that capture. */
static cudaError_t join_capture(CUstream_st *s, CUevent_st *event)
{
  fake_capture_t *capture = event->capture.get();
  if (!capture->valid) return cudaErrorStreamCaptureInvalidated;
  if (s->capture && s->capture != event->capture) {
    fake_invalidate(capture);
    fake_invalidate(s->capture.get());
    return cudaErrorStreamCaptureMerge;
  }
  if (!s->capture) {
    s->capture = event->capture;
    s->last.clear();
    capture->streams.insert(s);
  }
  for (int node : event->nodes)
    if (std::find(s->last.begin(), s->last.end(), node) == s->last.end()) s->last.push_back(node);
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int)
{
  FAKE_CALL(FAKE_HARMLESS);
  CUstream_st *s = fake_stream(stream);
  if (!s || !fake->events.count(event)) return call.done(cudaErrorInvalidResourceHandle);
  if (event->capture) return call.done(join_capture(s, event));
  if (s->capture) { /* the event was recorded outside of the capture */
    if (!event->mark) return cudaSuccess;
    fake_invalidate(s->capture.get());
    return call.done(cudaErrorStreamCaptureIsolation);
  }
  if (!event->mark) return cudaSuccess;
  fake_clock_join(&s->line->clock, event->mark->clock);
  put(s->line, "a wait", {nullptr, event->mark->line, event->mark->number, nullptr});
  return cudaSuccess;
}

static cudaError_t outside_captures(const CUevent_st *event)
{
  if (!fake->events.count((cudaEvent_t)event)) return cudaErrorInvalidResourceHandle;
  return event->capture ? cudaErrorCapturedEvent : cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
  FAKE_CALL(FAKE_UNSAFE);
  cudaError_t rc = outside_captures(event);
  if (rc != cudaSuccess || !event->mark) return call.done(rc);
  rc = fake_run_until(event->mark->line, event->mark->number);
  fake_host_waited(event->mark->clock);
  return call.done(rc);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
  FAKE_CALL(FAKE_UNSAFE);
  cudaError_t rc = outside_captures(event);
  if (rc != cudaSuccess || !event->mark) return call.done(rc);
  rc = asked(event->mark->line, event->mark->number);
  if (rc == cudaSuccess) fake_host_waited(event->mark->clock);
  return call.done(rc);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
  FAKE_CALL(FAKE_HARMLESS);
  for (cudaEvent_t event : {from, to}) {
    cudaError_t rc = outside_captures(event);
    if (rc != cudaSuccess) return call.done(rc);
    if (!event->mark || event->flags & cudaEventDisableTiming)
      return call.done(cudaErrorInvalidResourceHandle);
    if (event->mark->line->done < event->mark->number) return call.done(cudaErrorNotReady);
  }
  *ms = (float)(1e3 * (to->mark->time - from->mark->time));
  return cudaSuccess;
}
