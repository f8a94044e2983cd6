/** \file ct_hf.h  Model directories of Hugging Face: config.json beside the weight files. Layer 3.
 * All functions are local.
 *
 * config.json is translated to and from the section `model` of a configuration by one table of keys
 * for each model_type: gpt2, llama and esm (src/transformers/models/<type>/configuration_<type>.py
 * in transformers). */
#ifndef CT_HF_H
#define CT_HF_H
#include <jansson.h>

#include "base/ct_text.h"
#include "conf/ct_yaml.h"

#define CT_HF_CONFIG "config.json"

/** Returns 1 if \a family is made of a model_type of the table. */
int ct_hf_knows(const char *family);
/** Finds the weights of a directory: the first of model.safetensors.index.json, model.safetensors
 * and pytorch_model.bin. Returns 1, or 0: it has none. */
int ct_hf_find(const char *dir, char *path, size_t cap);
/** Appends the section `model` for the config.json of a directory, as YAML text: its family and
 * numbers, `input` and `classes`. CT_ERR_IO; CT_ERR_FORMAT names the file, the key and what was
 * expected: also if a value asks for something that the family does not have. */
int ct_hf_model(const char *dir, ct_str_t *out);
/** The same for the text of a config.json; \a path is for messages. */
int ct_hf_translate(const char *path, const char *text, size_t bytes, ct_str_t *out);
/** Returns in *out a config.json for the section \a model, in which all numbers are set; the caller
 * frees it. CT_ERR_USAGE: transformers has no model with this family or these values. */
int ct_hf_describe(const ct_yaml_t *model, json_t **out);

#endif
