/* fake.h  Inside of the fake CUDA runtime (fake_cuda.h).  All of it is done under one lock. */
#ifndef FAKE_H
#define FAKE_H
#include <cuda_runtime_api.h>
#include <pthread.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/cuda/emu/emu.h"
#include "tests/cuda/emu/fake_cuda.h"

enum { FAKE_MAX_GPUS = 64 };

/* A piece of work.  Of what it returns, two are not its end: cudaErrorNotReady, nothing could be
 * done; and */
static const cudaError_t FAKE_AGAIN = cudaErrorApiFailureBase; /* there is more of it to do */
typedef std::function<cudaError_t()> fake_action_t;

/* The work of a stream; may outlive it. */
struct fake_line_t;
struct fake_piece_t {
  fake_action_t action;               /* empty: only waits */
  std::shared_ptr<fake_line_t> after; /* may be done once this line has done `number` pieces */
  int64_t number;
};
struct fake_line_t {
  int device;
  std::deque<fake_piece_t> work;
  int64_t put, done;
};

struct fake_node_t {
  fake_action_t action;
  std::vector<int> after; /* nodes */
};
struct fake_capture_t {
  bool valid;
  cudaStream_t origin;
  pthread_t thread;
  enum cudaStreamCaptureMode mode;
  std::vector<fake_node_t> nodes;
  std::set<cudaStream_t> streams; /* that take part */
};

/* A point in the work of a line. */
struct fake_mark_t {
  std::shared_ptr<fake_line_t> line;
  int64_t number;
  double time;
};

struct CUstream_st {
  int device;
  unsigned flags;
  int priority;
  std::shared_ptr<fake_line_t> line;
  std::shared_ptr<fake_capture_t> capture; /* or empty */
  std::vector<int> last;                   /* in a capture: nodes that the next one comes after */
};
struct CUevent_st {
  int device;
  unsigned flags;
  std::shared_ptr<fake_mark_t> mark;       /* of the last record */
  std::shared_ptr<fake_capture_t> capture; /* if that was in one */
  std::vector<int> nodes;
};
struct CUgraph_st {
  std::shared_ptr<std::vector<fake_node_t>> nodes;
};
struct CUgraphExec_st {
  int device;
  std::shared_ptr<std::vector<fake_node_t>> nodes;
};

enum fake_kind_t { FAKE_DEVICE, FAKE_PINNED, FAKE_REGISTERED };
struct fake_memory_t {
  fake_kind_t kind;
  int device;
  size_t bytes;
};

struct fake_device_t {
  cudaError_t broken; /* stays */
  size_t used;        /* bytes */
  bool touched;
  CUstream_st *legacy; /* the stream NULL */
};

struct fake_state_t {
  int gpus;
  cudaError_t absent; /* why there are none */
  int physical[FAKE_MAX_GPUS];
  size_t memory_bytes;
  enum { INLINE, LATE, RANDOM } order;
  uint64_t seed;
  struct failure {
    std::string function;
    int64_t call;
    cudaError_t code;
  };
  std::vector<failure> failures;
  std::map<std::string, int64_t> calls;
  fake_device_t device[FAKE_MAX_GPUS];
  std::map<const unsigned char *, fake_memory_t> memory;
  std::vector<std::shared_ptr<fake_line_t>> lines;
  std::set<cudaStream_t> streams;
  std::set<cudaEvent_t> events;
  std::set<cudaGraph_t> graphs;
  std::set<cudaGraphExec_t> execs;
  std::vector<std::shared_ptr<fake_capture_t>> captures; /* that go on */
};
extern fake_state_t *fake;

/* ---- fake_device.cc ---- */

/* What a function does to captures of the thread that calls it. */
enum fake_use_t {
  FAKE_HARMLESS,
  FAKE_UNSAFE /* forbidden while this thread captures */
};
/* At the start of every function: the lock, the environment, a device, sticky and injected
 * errors. */
class fake_call
{
public:
  fake_call(const char *function, fake_use_t use, bool needs_device = true);
  ~fake_call();
  fake_call(const fake_call &) = delete;
  fake_call &operator=(const fake_call &) = delete;
  cudaError_t rc;
  /* Remembers an error for cudaGetLastError. */
  cudaError_t done(cudaError_t code);

private:
  bool holds;
};
#define FAKE_CALL(use)             \
  fake_call call(__func__, (use)); \
  if (call.rc != cudaSuccess) return call.done(call.rc)

int fake_current(void); /* device of this thread */
uint64_t fake_draw(void);
void fake_unlock_a_while(void);

/* ---- fake_stream.cc ---- */

/* NULL: no such stream. */
CUstream_st *fake_stream(cudaStream_t s);
cudaError_t fake_put(CUstream_st *s, const fake_action_t &action);
/* Waits until the line has done as many pieces. */
cudaError_t fake_run_until(const std::shared_ptr<fake_line_t> &line, int64_t number);
cudaError_t fake_run_device(int device);
void fake_invalidate(fake_capture_t *capture);

/* ---- fake_memory.cc ---- */

/* The allocation that p lies in (a device's, pinned or registered), or NULL; *start: where it
 * begins. */
const fake_memory_t *fake_memory_of(const void *p, const unsigned char **start);
/* 1 if p looks like the address of something that the host has, but not on its stack. */
int fake_is_host_heap(const void *p);

/* ---- fake_graph.cc ---- */

/* Whether the calling thread is capturing so that unsafe calls are forbidden to it. */
fake_capture_t *fake_capturing(void);

#endif
