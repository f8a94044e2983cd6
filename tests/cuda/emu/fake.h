/* fake.h Internals of the fake CUDA runtime (fake_cuda.h).  One lock protects all of it. */
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

/* An action in a stream.  It returns cudaSuccess or an error when it is complete; cudaErrorNotReady
 * if it could make no progress; FAKE_AGAIN if it made progress but is not complete. */
static const cudaError_t FAKE_AGAIN = cudaErrorApiFailureBase;
typedef std::function<cudaError_t()> fake_action_t;

/* For each lane, a number of an action (fake_access.cc). */
typedef std::vector<uint32_t> fake_clock_t;
/* An action, as it is known to the search for hazards. */
struct fake_who_t {
  std::string what;
  int stream, lane;   /* numbers of the stream and its lane; lane 0: the host */
  fake_clock_t clock; /* the latest actions that complete before it starts, and its own number */
};

/* The actions of a stream, which may outlive it. */
struct fake_line_t;
struct fake_piece_t {
  fake_action_t action;               /* empty: only waits */
  std::shared_ptr<fake_line_t> after; /* runs after this queue has completed `number` actions */
  int64_t number;
  std::shared_ptr<const fake_who_t> who;
};
struct fake_line_t {
  int device, stream;
  int lane, graph_lane; /* graph_lane: of its actions in graphs */
  fake_clock_t clock;   /* of the latest action */
  std::deque<fake_piece_t> work;
  int64_t put, done;
  ~fake_line_t();
};

struct fake_node_t {
  fake_action_t action;
  std::vector<int> after; /* indices of the nodes it depends on */
  std::string what;
  std::shared_ptr<fake_line_t> line;      /* of the captured stream */
  int priority;                           /* of the stream that it was captured from */
  std::set<const unsigned char *> memory; /* first bytes of the allocations in its arguments */
};
struct fake_capture_t {
  bool valid;
  cudaStream_t origin;
  pthread_t thread;
  enum cudaStreamCaptureMode mode;
  std::vector<fake_node_t> nodes;
  std::set<cudaStream_t> streams; /* streams that take part in the capture */
};

/* A position in a queue, as an event records it. */
struct fake_mark_t {
  std::shared_ptr<fake_line_t> line;
  int64_t number;
  fake_clock_t clock;
  double time;
};

struct CUstream_st {
  int device;
  unsigned flags;
  int priority;
  std::shared_ptr<fake_line_t> line;
  std::shared_ptr<fake_capture_t> capture; /* empty: the stream is not capturing */
  std::vector<int> last;                   /* while capturing: nodes on which the next one
                                              depends */
};
struct CUevent_st {
  int device;
  unsigned flags;
  std::shared_ptr<fake_mark_t> mark;       /* position of the last record */
  std::shared_ptr<fake_capture_t> capture; /* capture of the last record, or empty */
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
  cudaError_t broken; /* sticky error */
  size_t used;        /* allocated bytes */
  bool touched;
  CUstream_st *legacy; /* the NULL stream */
};

struct fake_state_t {
  int gpus;
  cudaError_t absent; /* error if there is no device */
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
  std::string failed; /* function of an injected failure that happened */
  bool hazards;
  fake_device_t device[FAKE_MAX_GPUS];
  std::map<const unsigned char *, fake_memory_t> memory;
  std::vector<std::shared_ptr<fake_line_t>> lines;
  std::set<cudaStream_t> streams;
  std::set<cudaEvent_t> events;
  std::set<cudaGraph_t> graphs;
  std::set<cudaGraphExec_t> execs;
  std::vector<std::shared_ptr<fake_capture_t>> captures; /* active captures */
};
extern fake_state_t *fake;

/* ---- fake_device.cc ---- */

/* How a function affects captures of the calling thread. */
enum fake_use_t {
  FAKE_HARMLESS,
  FAKE_UNSAFE /* forbidden while this thread is capturing */
};
/* Opens every runtime function: takes the lock, reads the environment, checks for a device, and
 * returns sticky and injected errors. */
class fake_call
{
public:
  fake_call(const char *function, fake_use_t use, bool needs_device = true);
  ~fake_call();
  fake_call(const fake_call &) = delete;
  fake_call &operator=(const fake_call &) = delete;
  cudaError_t rc;
  /* Stores an error for cudaGetLastError. */
  cudaError_t done(cudaError_t code);

private:
  bool holds;
};
#define FAKE_CALL(use)             \
  fake_call call(__func__, (use)); \
  if (call.rc != cudaSuccess) return call.done(call.rc)

int fake_current(void); /* the current device of this thread */
uint64_t fake_draw(void);
void fake_unlock_a_while(void);

/* ---- fake_stream.cc ---- */

/* NULL: there is no such stream. */
CUstream_st *fake_stream(cudaStream_t s);
/* args[bytes]: the addresses that the action uses are among these words. */
cudaError_t fake_put(CUstream_st *s, const std::string &what, const fake_action_t &action,
                     const void *args = NULL, size_t bytes = 0);
/* Runs actions until the queue has completed `number` of them; the host waits for that. */
cudaError_t fake_run_until(const std::shared_ptr<fake_line_t> &line, int64_t number);
/* Runs all actions; host_waits: the program may count on it. */
cudaError_t fake_run_device(int device, bool host_waits);
void fake_invalidate(fake_capture_t *capture);

/* ---- fake_access.cc ---- */

/* Memory of devices and pinned memory; NULL: none left.  Addresses are not used again. */
void *fake_space_new(size_t bytes);
void fake_space_free(void *p, size_t bytes);
int fake_lane_new(void);
void fake_lane_free(int lane);
void fake_clock_join(fake_clock_t *c, const fake_clock_t &other);
/* Gives the next action of a lane its number. */
void fake_clock_next(fake_clock_t *c, int lane);
/* The host has waited for all that c knows. */
void fake_host_waited(const fake_clock_t &c);
const fake_clock_t &fake_host_clock(void);
/* Enclose the running of an action; end() returns an error if nothing orders one of its accesses
 * and an earlier one. */
void fake_access_begin(const std::shared_ptr<const fake_who_t> &who);
cudaError_t fake_access_end(void);
const fake_who_t *fake_running(void);
/* Forgets accesses to memory that is allocated again. */
void fake_forget(const void *p, size_t bytes);
void fake_access_reset(void);

/* ---- fake_memory.cc ---- */

/* Returns the allocation that contains p (device, pinned or registered memory), or NULL; *start is
 * its first byte. */
const fake_memory_t *fake_memory_of(const void *p, const unsigned char **start);
/* Returns 1 if p looks like the address of host memory outside the stack. */
int fake_is_host_heap(const void *p);

/* ---- fake_graph.cc ---- */

/* Returns the capture that forbids unsafe calls to the calling thread, or NULL. */
fake_capture_t *fake_capturing(void);

#endif
