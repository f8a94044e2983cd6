/* Stream capture and graphs (fake_cuda.h). */
#include <stdio.h>

#include <algorithm>

#include "tests/cuda/emu/fake.h"

typedef std::shared_ptr<std::vector<fake_node_t>> nodes_t;

/* ---- captures ---- */

fake_capture_t *fake_capturing(void)
{
  for (auto &c : fake->captures)
    if (c->valid &&
        (c->mode == cudaStreamCaptureModeGlobal ||
         (c->mode == cudaStreamCaptureModeThreadLocal && pthread_equal(c->thread, pthread_self()))))
      return c.get();
  return NULL;
}

void fake_invalidate(fake_capture_t *capture)
{
  capture->valid = false;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
  FAKE_CALL(FAKE_HARMLESS);
  CUstream_st *s = fake_stream(stream);
  if (!s) return call.done(cudaErrorInvalidResourceHandle);
  if (s == fake->device[fake_current()].legacy) return call.done(cudaErrorStreamCaptureUnsupported);
  if (s->capture) return call.done(cudaErrorIllegalState);
  s->capture = std::make_shared<fake_capture_t>();
  s->capture->valid = true;
  s->capture->origin = s;
  s->capture->thread = pthread_self();
  s->capture->mode = mode;
  s->capture->streams.insert(s);
  s->last.clear();
  fake->captures.push_back(s->capture);
  return cudaSuccess;
}

/* Returns true if the origin stream depends on every node of the capture. */
static bool is_joined(const fake_capture_t *c)
{
  std::vector<bool> before(c->nodes.size(), false);
  std::vector<int> open = c->origin->last;
  while (!open.empty()) {
    int node = open.back();
    open.pop_back();
    if (before[(size_t)node]) continue;
    before[(size_t)node] = true;
    for (int other : c->nodes[(size_t)node].after)
      open.push_back(other);
  }
  return std::find(before.begin(), before.end(), false) == before.end();
}

static cudaError_t end_capture(CUstream_st *s, cudaGraph_t *out)
{
  std::shared_ptr<fake_capture_t> c = s->capture;
  bool joined = c->valid && is_joined(c.get());
  for (CUstream_st *member : c->streams) {
    member->capture = nullptr;
    member->last.clear();
  }
  fake->captures.erase(std::find(fake->captures.begin(), fake->captures.end(), c));
  auto nodes = std::make_shared<std::vector<fake_node_t>>();
  nodes->swap(c->nodes); /* events may hold the capture for long */
  if (!c->valid) return cudaErrorStreamCaptureInvalidated;
  c->valid = false; /* marks events that were recorded in the capture */
  if (!joined) return cudaErrorStreamCaptureUnjoined;
  *out = new CUgraph_st{nodes};
  fake->graphs.insert(*out);
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
  fake_call call(__func__, FAKE_HARMLESS);
  *out = NULL;
  if (!fake->gpus) return call.done(call.rc);
  CUstream_st *s = fake_stream(stream);
  if (!s) return call.done(cudaErrorInvalidResourceHandle);
  if (!s->capture) return call.done(cudaErrorIllegalState);
  if (call.rc != cudaSuccess) { /* an injected failure, which ends the capture too */
    fake_invalidate(s->capture.get());
    (void)end_capture(s, out);
    return call.done(call.rc);
  }
  if (s->capture->origin != s) {
    fake_invalidate(s->capture.get());
    return call.done(cudaErrorStreamCaptureUnmatched);
  }
  if (s->capture->mode != cudaStreamCaptureModeRelaxed &&
      !pthread_equal(s->capture->thread, pthread_self()))
    return call.done(cudaErrorStreamCaptureWrongThread);
  return call.done(end_capture(s, out));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *out)
{
  FAKE_CALL(FAKE_HARMLESS);
  CUstream_st *s = fake_stream(stream);
  if (!s) return call.done(cudaErrorInvalidResourceHandle);
  *out = !s->capture         ? cudaStreamCaptureStatusNone
         : s->capture->valid ? cudaStreamCaptureStatusActive
                             : cudaStreamCaptureStatusInvalidated;
  return cudaSuccess;
}

/* ---- graphs ---- */

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
  FAKE_CALL(FAKE_HARMLESS);
  if (!fake->graphs.count(graph) || nodes)
    return call.done(cudaErrorInvalidValue); /* only the count is implemented */
  *count = graph->nodes->size();
  return cudaSuccess;
}

/* Returns the nodes of an executable graph, whose kernels have priorities only if asked for. */
static nodes_t executable(const nodes_t &captured, bool with_priorities)
{
  auto nodes = std::make_shared<std::vector<fake_node_t>>(*captured);
  std::set<int> priorities;
  for (fake_node_t &node : *nodes) {
    priorities.insert(node.priority);
    if (!with_priorities) node.priority = 0;
  }
  if (priorities.size() > 1 && !with_priorities)
    fprintf(stderr, "fake cuda: the kernels of a graph lose the priorities of their streams\n");
  return nodes;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
  FAKE_CALL(FAKE_HARMLESS);
  *out = NULL;
  if (!fake->graphs.count(graph) || flags & ~cudaGraphInstantiateFlagUseNodePriority)
    return call.done(cudaErrorInvalidValue); /* the other flags are not implemented */
  *out = new CUgraphExec_st{
      fake_current(), executable(graph->nodes, flags & cudaGraphInstantiateFlagUseNodePriority)};
  fake->execs.insert(*out);
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph,
                                          unsigned long long flags)
{
  return cudaGraphInstantiate(out, graph, flags);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
  FAKE_CALL(FAKE_HARMLESS);
  if (!fake->graphs.erase(graph)) return call.done(cudaErrorInvalidValue);
  delete graph;
  return cudaSuccess;
}

/* Launches in progress continue, as cuGraphExecDestroy() says. */
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
  /* done also on a broken device, whose error it returns, as the manual says */
  fake_call call(__func__, FAKE_HARMLESS);
  if (!fake || !fake->execs.erase(exec))
    return call.done(call.rc != cudaSuccess ? call.rc : cudaErrorInvalidValue);
  delete exec;
  return call.done(call.rc);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t)
{
  FAKE_CALL(FAKE_HARMLESS);
  return call.done(fake->execs.count(exec) ? cudaSuccess : cudaErrorInvalidValue);
}

/* State of one launch: which nodes are done. */
struct run_t {
  std::vector<bool> done;
  size_t left;
  std::vector<size_t> order;
  std::vector<std::shared_ptr<const fake_who_t>> who;
};

/* Gives each node its place in the order of actions: after the nodes it depends on, and all of them
 * after what the launch comes after. */
static void place_nodes(const std::vector<fake_node_t> &nodes, fake_line_t *line, run_t *run)
{
  fake_clock_join(&line->clock, fake_host_clock());
  const fake_clock_t before = line->clock;
  for (const fake_node_t &node : nodes) {
    auto who = std::make_shared<fake_who_t>(
        fake_who_t{node.what + " of a graph", node.line->stream, node.line->graph_lane, before});
    for (int other : node.after)
      fake_clock_join(&who->clock, run->who[(size_t)other]->clock);
    fake_clock_next(&who->clock, who->lane);
    fake_clock_join(&line->clock, who->clock);
    run->who.push_back(who);
  }
}

static bool is_ready(const fake_node_t &node, const run_t &run)
{
  for (int other : node.after)
    if (!run.done[(size_t)other]) return false;
  return true;
}

/* Returns the nodes in the order in which they are tried: by priority, which is a hint, so that
 * order `random` does without. */
static std::vector<size_t> order_of(const nodes_t &nodes)
{
  std::vector<size_t> order(nodes->size());
  for (size_t i = 0; i < order.size(); i++)
    order[i] = i;
  if (fake->order != fake_state_t::RANDOM)
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return (*nodes)[a].priority < (*nodes)[b].priority;
    });
  return order;
}

/* Runs one node whose dependencies are done: the first in the order, or a random one. */
static cudaError_t do_node(const nodes_t &nodes, run_t *run)
{
  size_t n = nodes->size(), from = 0;
  if (fake->order == fake_state_t::RANDOM && n > 0) from = fake_draw() % n;
  for (size_t i = 0; i < n; i++) {
    size_t at = run->order[(from + i) % n];
    const fake_node_t &node = (*nodes)[at];
    if (run->done[at] || !is_ready(node, *run)) continue;
    fake_access_begin(run->who[at]);
    cudaError_t rc = node.action();
    if (rc == cudaErrorNotReady) continue;
    if (rc != cudaSuccess) return rc;
    run->done[at] = true;
    return --run->left > 0 ? FAKE_AGAIN : cudaSuccess;
  }
  return n > 0 ? cudaErrorNotReady : cudaSuccess;
}

/* Returns true if memory in the arguments of a node was freed after the capture. */
static bool is_stale(const nodes_t &nodes)
{
  for (const fake_node_t &node : *nodes)
    for (const unsigned char *start : node.memory)
      if (!fake->memory.count(start)) return true;
  return false;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
  FAKE_CALL(FAKE_HARMLESS);
  CUstream_st *s = fake_stream(stream);
  if (!s || !fake->execs.count(exec) || s->device != exec->device)
    return call.done(cudaErrorInvalidValue);
  if (s->capture) { /* graphs inside graphs are not implemented */
    fake_invalidate(s->capture.get());
    return call.done(cudaErrorStreamCaptureUnsupported);
  }
  nodes_t nodes = exec->nodes;
  if (is_stale(nodes)) {
    fprintf(stderr, "fake cuda: a graph uses memory that was freed\n");
    return call.done(fake_put(s, "a graph", [] { return cudaErrorIllegalAddress; }));
  }
  auto run = std::make_shared<run_t>(
      run_t{std::vector<bool>(nodes->size(), false), nodes->size(), order_of(nodes), {}});
  place_nodes(*nodes, s->line.get(), run.get());
  return call.done(fake_put(s, "a graph", [=] { return do_node(nodes, run.get()); }));
}
