/* Names of options in other programs, each with the key of this program, so that messages can
 * suggest the key. */
#include <string.h>

#include "conf/ct_opt.h"

static const struct {
  const char *other;
  const char *key;
} names[] = {{"learning_rate", "lr"},
             {"wd", "weight_decay"},
             {"batch_size", "batch"},
             {"num_workers", "workers"},
             {"num_epochs", "epochs"},
             {"max_epochs", "epochs"},
             {"max_steps", "steps"},
             {"num_classes", "classes"},
             {"validation", "val"},
             {"clip_grad_norm", "clip_norm"},
             {"random_horizontal_flip", "random_flip"},
             {"early_stopping", "early_stop"},
             {"optimizer", "optim"},
             {"scheduler", "schedule"},
             {"lr_scheduler", "schedule"},
             {"criterion", "loss"},
             {"dataset", "data"},
             {"tf32", "train.amp: tf32"}, /* in another section than it may be looked for */
             {"allow_tf32", "train.amp: tf32"},
             {"type", "kind"},
             {"kernel_size", "kernel"},
             {"out_channels", "out"},
             {"out_features", "out"}};

const char *ct_opt_name(const char *word)
{
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(word, names[i].other) == 0) return names[i].key;
  return word;
}

const char *ct_opt_nearest(const char *word, const char *const *keys, int n)
{
  const char *key = ct_opt_name(word);
  for (int i = 0; i < n; i++)
    if (strcmp(key, keys[i]) == 0) return keys[i];
  return ct_text_nearest(word, keys, n);
}
