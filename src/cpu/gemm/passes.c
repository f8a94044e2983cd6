/* Convolution and linear ops: runs each pass with its chosen algorithm, with reorders for tensors
 * in another format.  The forward pass determines the format of the weights. */
#include "cpu/gemm/passes.h"
#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include <string.h>

static size_t align64(size_t bytes)
{
  return (bytes + 63) & ~(size_t)63;
}

static const cpu__role_t tensors[] = {CPU__X, CPU__W, CPU__Y};

/* Returns the role that a pass writes. */
static cpu__role_t result_of(int pass)
{
  return pass == CT_FWD ? CPU__Y : pass == CT_BWD_DATA ? CPU__X : CPU__W;
}

/* Adds the reorders between the tensors of the graph and the formats of the algorithm. */
static int add_reorders(cpu__passes_op_t *op, cpu__pass_t *p, const cpu__job_t *job,
                        ct_op_info_t *info)
{
  int rc = CT_OK;
  const ct_op_desc_t *d = job->desc;
  cpu__md_t *inner[CPU__ROLES] = {[CPU__W] = p->ready.w};
  size_t at = 0, own = p->ready.scratch;
  CT_TRY(cpu__md_typed(d->x.dtype, d->x.ndim, d->x.dim, (int)job->at.x, &inner[CPU__X]));
  CT_TRY(cpu__md_typed(d->x.dtype, d->y.ndim, d->y.dim, (int)job->at.y, &inner[CPU__Y]));
  for (int i = 0; i < 3; i++) {
    cpu__role_t r = tensors[i];
    int out = r == result_of(job->pass);
    const cpu__md_t *from = out ? inner[r] : op->md[r], *to = out ? op->md[r] : inner[r];
    if (cpu__md_same(from, to)) continue;
    CT_TRY(cpu__prim_reorder(op->head.dev->dnnl, from, to, &p->reorder[r]));
    if (cpu__prim_scratch(p->reorder[r]) > own) own = cpu__prim_scratch(p->reorder[r]);
    p->offset[r] = at;
    at += align64(cpu__md_bytes(inner[r]));
  }
  p->offset[CPU__SCRATCH] = at;
  if (at + own > info->scratch) info->scratch = at + own;
out:
  cpu__md_free(inner[CPU__X]);
  cpu__md_free(inner[CPU__Y]);
  return rc;
}

/* Finds the algorithms that do not suit the existing format of the weights. */
static int find_misfits(const cpu__passes_op_t *op, const cpu__costs_t *c, cpu__job_t job,
                        unsigned *misfits)
{
  int rc = CT_OK;
  *misfits = 0;
  if (!op->md[CPU__W]) return CT_OK;
  for (int w = 0; w < CPU__ALGOS_MAX && c->algos->algo[w]; w++) {
    char why[128];
    cpu__cost_t cost;
    cpu__md_t *md = NULL;
    const cpu__algo_t *algo = c->algos->algo[w];
    if (!algo->as_it_lies || algo->can(&job, &cost, why) <= 0) continue;
    CT_TRY(algo->stored(&job, &md));
    if (!cpu__md_same(md, op->md[CPU__W])) *misfits |= 1u << w;
    cpu__md_free(md);
  }
out:
  return rc;
}

static int has_add(const ct_op_desc_t *d)
{
  return d->kind == CT_OP_CONV && d->u.conv.add;
}

/* Sets p->apart.  If the algorithm cannot add x2 itself, it writes its result to scratch, and y is
 * computed from this result and x2. */
static void set_apart(const cpu__passes_op_t *op, cpu__pass_t *p, cpu__job_t *job,
                      ct_op_desc_t *bare, ct_op_info_t *info)
{
  if (job->pass != CT_FWD || !has_add(job->desc)) return;
  info->inplace_second = 1;
  if (p->algo->add && job->at.y == op->y_layout) return;
  p->apart = 1;
  *bare = *job->desc;
  bare->u.conv.add = bare->u.conv.relu = 0;
  job->desc = bare;
}

static int add_pass(cpu__passes_op_t *op, const cpu__costs_t *c, int i, cpu__job_t job,
                    ct_op_info_t *info)
{
  int rc = CT_OK;
  unsigned misfits;
  ct_op_desc_t bare;
  cpu__pass_t *p = &op->pass[i];
  job.pass = 1 << i;
  CT_TRY(find_misfits(op, c, job, &misfits));
  cpu__choice_t choice = cpu__choose(c, i, job.at, misfits);
  if (!choice.algo)
    CT_FAIL(CT_ERR_UNSUP, "the CPU backend has no algorithm for this '%s' op",
            ct_op_name(job.desc->kind));
  job.at = choice.at;
  if (!op->md[CPU__W]) CT_TRY(choice.in_the_long_run->stored(&job, &op->md[CPU__W]));
  p->algo = choice.algo;
  set_apart(op, p, &job, &bare, info);
  CT_TRY(p->algo->prepare(&job, &p->ready));
  CT_TRY(add_reorders(op, p, &job, info));
  if (p->apart) {
    p->beside = align64(info->scratch);
    info->scratch = p->beside + cpu__md_bytes(op->md[CPU__Y]);
  }
  if (i == 0) info->algorithm = p->algo->name;
out:
  return rc;
}

/* Sets the format of the weights if it is not for the algorithm to choose. */
static int fix_weights(cpu__passes_op_t *op, const ct_op_desc_t *d, const ct_op_t *like)
{
  int64_t dims[CT_MAX_DIMS] = {d->y.dim[1], d->x.dim[1]};
  if (like) return cpu__md_copy(((const cpu__passes_op_t *)like)->md[CPU__W], &op->md[CPU__W]);
  if (d->kind != CT_OP_CONV || !d->u.conv.plain) return CT_OK;
  for (int i = 2; i < d->x.ndim; i++)
    dims[i] = d->u.conv.kernel[i - 2];
  return cpu__md_typed(CT_F32, d->x.ndim, dims, CT_PLAIN, &op->md[CPU__W]);
}

int cpu__passes_prepare_at(ct_op_t *head, const cpu__costs_t *costs, cpu__layouts_t at,
                           const ct_op_desc_t *d, const ct_op_t *like, ct_op_info_t *info)
{
  int rc = CT_OK;
  cpu__passes_op_t *op = (cpu__passes_op_t *)head;
  cpu__job_t job = {.dev = head->dev, .desc = d, .at = at};
  op->y_layout = job.at.y;
  CT_TRY(cpu__md_typed(d->x.dtype, d->x.ndim, d->x.dim, (int)job.at.x, &op->md[CPU__X]));
  CT_TRY(cpu__md_typed(d->x.dtype, d->y.ndim, d->y.dim, (int)job.at.y, &op->md[CPU__Y]));
  CT_TRY(fix_weights(op, d, like));
  for (int i = 0; i < CPU__PASSES; i++)
    if (costs->passes >> i & 1) CT_TRY(add_pass(op, costs, i, job, info));
  info->param_bytes[0] = cpu__md_bytes(op->md[CPU__W]);
  info->param_layout = ct_hash_int(info->param_bytes[1] > 0, cpu__md_hash(op->md[CPU__W]));
  if (d->kind == CT_OP_LINEAR && d->u.linear.plain) info->param_layout = 0;
  info->y_layout = job.at.y;
  const cpu__pass_t *param = &op->pass[2];
  int plain = d->kind == CT_OP_LINEAR && d->u.linear.plain;
  info->adds_dw = param->algo && param->algo->run_adding && !param->reorder[CPU__W] && !plain;
out:
  return rc;
}

int cpu__passes_prepare(ct_op_t *head, const cpu__algos_t *algos, const ct_op_desc_t *d,
                        const ct_op_t *like, ct_op_info_t *info)
{
  int rc = CT_OK;
  cpu__costs_t costs;
  double cost;
  CT_TRY(cpu__ask(algos, head->dev, d, &costs));
  cpu__layouts_t at = cpu__best_layouts(&costs, head->desc.x.layout, &cost);
  CT_TRY(cpu__passes_prepare_at(head, &costs, at, d, like, info));
out:
  return rc;
}

static int run_reorder(cpu__dnnl_t *dnnl, cpu__prim_t *reorder, void *from, void *to, void *scratch)
{
  void *at[CPU__ROLES] = {[CPU__X] = from, [CPU__Y] = to, [CPU__SCRATCH] = scratch};
  return cpu__prim_run(dnnl, reorder, at);
}

/* Runs a pass with its reorders.  at[]: on entry the tensors of the graph and the arena; the
 * function replaces them by the tensors of the algorithm. */
static int run_pass(ct_dev_t *dev, const cpu__pass_t *p, int pass, int adds, void *at[CPU__ROLES],
                    char *scratch)
{
  int rc = CT_OK;
  cpu__role_t result = result_of(pass);
  void *own = scratch + p->offset[CPU__SCRATCH], *target = at[result];
  for (cpu__role_t r = 0; r < CPU__SCRATCH; r++) {
    if (!p->reorder[r]) continue;
    void *copy = scratch + p->offset[r];
    if (r != result) CT_TRY(run_reorder(dev->dnnl, p->reorder[r], at[r], copy, own));
    at[r] = copy;
  }
  at[CPU__SCRATCH] = own;
  CT_TRY((adds ? p->algo->run_adding : p->algo->run)(dev, &p->ready, at));
  if (p->reorder[result])
    CT_TRY(run_reorder(dev->dnnl, p->reorder[result], at[result], target, own));
out:
  return rc;
}

/* Casts const away: oneDNN's memory objects are never const, even for inputs. */
static void *readable(const void *p)
{
  return (void *)(uintptr_t)p;
}

static void zero_gradients(const cpu__passes_op_t *op, const ct_op_args_t *a)
{
  for (int i = 0; i < 2 && a->pass & CT_BWD_PARAM && !a->adds_dw; i++)
    if (op->head.param_bytes[i]) memset(a->dw[i], 0, op->head.param_bytes[i]);
}

static int has_relu(const ct_op_desc_t *d)
{
  return d->kind == CT_OP_CONV ? d->u.conv.relu : d->u.linear.relu;
}

/* Runs the forward pass of an op with x2. */
static int run_adding(ct_op_t *head, const ct_op_args_t *a)
{
  int rc = CT_OK;
  const cpu__pass_t *p = &((cpu__passes_op_t *)head)->pass[0];
  const ct_shape_t *y = &head->desc.y;
  void *beside = (char *)a->scratch + p->beside;
  void *at[CPU__ROLES] = {readable(a->x), a->w[0], a->w[1], p->apart ? beside : a->y, NULL};
  if (!p->apart && a->y != a->x2) cpu__add_of(head->dev, y, a->x2, NULL, a->y, 0);
  CT_TRY(run_pass(head->dev, p, CT_FWD, 0, at, a->scratch));
  if (p->apart) cpu__add_of(head->dev, y, beside, a->x2, a->y, has_relu(&head->desc));
out:
  return rc;
}

int cpu__passes_run(ct_op_t *head, const ct_op_args_t *a)
{
  int rc = CT_OK;
  cpu__passes_op_t *op = (cpu__passes_op_t *)head;
  if (head->desc.x.dim[0] == 0) {
    zero_gradients(op, a);
    return rc;
  }
  if (has_add(&head->desc)) return run_adding(head, a);
  for (int i = 0; i < CPU__PASSES; i++) {
    const cpu__pass_t *p = &op->pass[i];
    if (!(a->pass & 1 << i)) continue;
    void *at[CPU__ROLES] = {readable(a->x), a->w[0], a->w[1], readable(a->dy), NULL};
    if (i == 0) at[CPU__Y] = a->y;
    if (i == 1) at[CPU__X] = a->dx;
    if (i == 2) {
      at[CPU__W] = a->dw[0];
      at[CPU__BIAS] = a->dw[1];
    }
    CT_TRY(run_pass(head->dev, p, 1 << i, i == 2 && a->adds_dw, at, a->scratch));
    if (i == 0 && has_relu(&head->desc) && !p->algo->relu)
      cpu__relu_of(head->dev, &head->desc.y, a->y);
  }
out:
  return rc;
}

void cpu__passes_clear(ct_op_t *head)
{
  cpu__passes_op_t *op = (cpu__passes_op_t *)head;
  for (int i = 0; i < CPU__PASSES; i++) {
    cpu__pass_t *p = &op->pass[i];
    if (p->algo) p->algo->clear(&p->ready);
    cpu__md_free(p->ready.w);
    for (cpu__role_t r = 0; r < CPU__ROLES; r++)
      cpu__prim_free(p->reorder[r]);
  }
  for (cpu__role_t r = 0; r < CPU__ROLES; r++)
    cpu__md_free(op->md[r]);
}

/* Converts weights from the plain layout to the op's own, or back. */
static int passes_convert(cpu__passes_op_t *op, int param, void *plain, void *own, int to_own)
{
  int rc = CT_OK;
  cpu__dnnl_t *dnnl = op->head.dev->dnnl;
  cpu__md_t *md = NULL, *w = op->md[CPU__W];
  cpu__prim_t *reorder = NULL;
  void *scratch = NULL;
  if (param == 1) {
    size_t bytes = op->head.param_bytes[1];
    memcpy(to_own ? own : plain, to_own ? plain : own, bytes);
    return CT_OK;
  }
  CT_TRY(cpu__md_plain(w, &md));
  CT_TRY(cpu__prim_reorder(dnnl, to_own ? md : w, to_own ? w : md, &reorder));
  if (cpu__prim_scratch(reorder) &&
      !(scratch = ct_mem_alloc(cpu__prim_scratch(reorder), "reorder"))) {
    rc = CT_ERR_NOMEM;
    goto out;
  }
  CT_TRY(run_reorder(dnnl, reorder, to_own ? plain : own, to_own ? own : plain, scratch));
out:
  ct_mem_free(scratch);
  cpu__prim_free(reorder);
  cpu__md_free(md);
  return rc;
}

int cpu__passes_pack(ct_op_t *op, int param, const float *plain, void *own)
{
  return passes_convert((cpu__passes_op_t *)op, param, readable(plain), own, 1);
}

int cpu__passes_unpack(ct_op_t *op, int param, const void *own, float *plain)
{
  return passes_convert((cpu__passes_op_t *)op, param, plain, readable(own), 0);
}
