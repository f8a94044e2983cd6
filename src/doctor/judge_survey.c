/* Findings about the samples of a data set. */
#include <inttypes.h>
#include <stdio.h>

#include "doctor/doctor.h"

/* Findings with the same key are merged, so findings about data.val have their own keys. */
#define KEY(text) (is_val ? "val_" text : text)

static void survey_set(int is_val, const ct_survey_t *l, ct_findings_t *out)
{
  const char *name = is_val ? "val" : "train";
  const char *of = l->looked < l->samples ? " (of the samples read)" : "";
  if (l->unread.n)
    ct__doctor_add(out, CT_FINDING_BAD, KEY("unreadable"), NULL, "",
                   "data.%s: %" PRId64 " sample%s cannot be read%s: %s", name, l->unread.n,
                   S(l->unread.n), of, l->unread.location);
  if (l->odd.n)
    ct__doctor_add(out, CT_FINDING_BAD, KEY("not_finite"), NULL, "pack the data without them",
                   "data.%s: %" PRId64 " sample%s with NaN or infinity%s, such as %s", name,
                   l->odd.n, S(l->odd.n), of, l->odd.location);
  if (l->missing.n)
    ct__doctor_add(out, CT_FINDING_BAD, KEY("missing"), NULL,
                   "data.missing: 0 replaces them by a number, data.on_error: skip skips such "
                   "samples",
                   "data.%s: %.3g%% of the numbers are missing, in %" PRId64
                   " sample%s%s, such as %s: training stops at them",
                   name, 1e2 * l->missing_numbers / ((double)l->looked * l->numbers_of_sample),
                   l->missing.n, S(l->missing.n), of, l->missing.location);
  if (l->label.n)
    ct__doctor_add(
        out, CT_FINDING_BAD, KEY("labels"), NULL,
        l->classes ? "correct model.classes, loss.ignore_index, or the data" : "",
        "data.%s: %" PRId64 " sample%s %s%s, such as %s", name, l->label.n, S(l->label.n),
        l->classes ? "with a label that is not a class" : "with a target that is not finite", of,
        l->label.location);
  if (l->weight.n)
    ct__doctor_add(out, CT_FINDING_BAD, KEY("weights"), NULL, "correct the array of data.weight",
                   "data.%s: %" PRId64 " sample%s with a weight that is negative or not finite%s, "
                   "such as %s",
                   name, l->weight.n, S(l->weight.n), of, l->weight.location);
  if (l->flat.n)
    ct__doctor_add(out, CT_FINDING_NOTE, KEY("constant"), NULL, "",
                   "data.%s: %" PRId64 " sample%s with all numbers equal%s, such as %s", name,
                   l->flat.n, S(l->flat.n), of, l->flat.location);
  if (l->twice.n)
    ct__doctor_add(out, CT_FINDING_NOTE, KEY("duplicates"), NULL, "",
                   "data.%s: %" PRId64 " sample%s %s of other samples%s, such as %s", name,
                   l->twice.n, S(l->twice.n), l->twice.n == 1 ? "is a copy" : "are copies", of,
                   l->twice.location);
  if (l->empty && l->looked == l->samples)
    ct__doctor_add(out, CT_FINDING_NOTE, KEY("empty_classes"), NULL, "",
                   "data.%s: %" PRId64 " of %" PRId64 " classes have no sample", name, l->empty,
                   l->classes);
}

void ct__doctor_survey(const ct_job_facts_t *job, ct_findings_t *out)
{
  int channel;
  const ct_surveys_t *l = job->surveys;
  if (!l) return;
  if (job->data.by_hdf5)
    ct__doctor_add(
        out, CT_FINDING_NOTE, "by_hdf5", NULL,
        "h5repack -f SHUF -f GZIP=4 IN.h5 OUT.h5, so that all threads can read them",
        "%d of %d files of data.train are read by the HDF5 library, one thread at a time",
        job->data.by_hdf5, job->data.files);
  survey_set(0, &l->train, out);
  if (l->val.samples == 0) return;
  survey_set(1, &l->val, out);
  if (l->shared.n)
    ct__doctor_add(
        out, CT_FINDING_BAD, "leak", NULL,
        "remove them from one of the sets: validation on training samples is not meaningful",
        "%" PRId64 " sample%s of data.val %s also in data.train, such as %s", l->shared.n,
        S(l->shared.n), l->shared.n == 1 ? "is" : "are", l->shared.location);
  double drift = ct_survey_drift(l, &channel);
  if (drift > 0.5)
    ct__doctor_add(out, CT_FINDING_NOTE, "drift", NULL,
                   "check that both sets were created and scaled in the same way",
                   "the mean of channel %d of data.val is %.2f standard deviations from that of "
                   "data.train",
                   channel, drift);
}
